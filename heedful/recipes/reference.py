"""Every key of every task's recipe: its type, default, range and meaning, from the JSON Schema of the recipes.

`docs/recipe.md` is a page of it, `heedful recipe KEY` tells one key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from heedful.catalogue import recipe_of
from heedful.recipes.load import json_schema

Schema: TypeAlias = Mapping[str, Any]

_FITTED: Final = "; chosen by the data and the time where the recipe leaves it open"


@dataclass(frozen=True)
class Key:
    """A key as one kind of a table has it.

    Attributes:
        path: its dotted name, with NAME for what is the user's own.
        chosen: key of the kind that its table must be of, and words for that kind; empty where there is one kind alone.
        type: of its values, in words.
        default: where it is not given; in words where there is no value.
        range: of its values, in words; empty where there is none.
        about: its meaning.
        is_table: whether it is a table with keys of its own.
    """

    path: str
    chosen: tuple[str, tuple[str, ...]]
    type: str
    default: str
    range: str
    about: str
    is_table: bool


def keys_of(task: str) -> list[Key]:
    """Every key of a task's recipe, of all kinds of its tables, in their order."""
    schema, fitted = json.loads(json_schema(task)), set(recipe_of(task).fitted)
    found = dict.fromkeys(_keys("", schema, [schema], schema["$defs"]))
    return [replace(key, about=key.about + _FITTED) if key.path in fitted and _may_be(key) else key for key in found]


def _may_be(key: Key) -> bool:
    """Whether its kind of table is one that tasks choose."""
    return not key.path.startswith("model.") or key.chosen[1] in ((), ("transformer",))


def _keys(path: str, table: Schema, kinds: Sequence[Schema], definitions: Mapping[str, Schema]) -> Iterator[Key]:
    """The keys of a table, which may be of several kinds."""
    if len(kinds) > 1:
        yield _chooser(path, table, kinds)
    for kind in kinds:
        chosen = (f"{path}kind", tuple(kinds_in(kind))) if len(kinds) > 1 else ("", ())
        for name, schema in kind["properties"].items():
            if name == "kind" and len(kinds) > 1:
                continue
            inside = [definitions[each] for each in tables_in(schema)]
            yield Key(
                path=f"{path}{name}",
                chosen=chosen,
                type=type_of(schema, definitions),
                default=default_of(name, schema, kind),
                range=range_of(schema),
                about=" ".join(schema.get("description", "there is only this kind so far").split()),
                is_table=bool(inside),
            )
            own = "NAME." if isinstance(schema.get("additionalProperties"), dict) else ""
            yield from _keys(f"{path}{name}.{own}", schema, inside, definitions)


def _chooser(path: str, table: Schema, kinds: Sequence[Schema]) -> Key:
    """The key that chooses the kind of a table."""
    words = [word for kind in kinds for word in kinds_in(kind)]
    default = (table.get("default") or {}).get("kind")
    abouts = (f"{' or '.join(kinds_in(kind))}: {' '.join(kind.get('description', '').split())}" for kind in kinds)
    return Key(
        path=f"{path}kind",
        chosen=("", ()),
        type=", ".join(f"`{json.dumps(word)}`" for word in words),
        default="see meaning" if default is None else f"`{json.dumps(default)}`",
        range="",
        about=f"which keys the table has. {' '.join(abouts)}",
        is_table=False,
    )


def kinds_in(schema: Schema) -> list[str]:
    """The words in `kind` that choose a table, its default first."""
    kind = schema["properties"].get("kind", {})
    first = [kind["default"]] if "default" in kind else []
    return list(dict.fromkeys((*first, *kind.get("enum", ()), *([kind["const"]] if "const" in kind else ()))))


def is_default(schema: Schema, default: Schema | None) -> bool:
    """Whether a table is of this kind unless it says otherwise."""
    return (default or {}).get("kind") in kinds_in(schema)


def tables_in(schema: Schema) -> list[str]:
    """Names of the tables that may stand here; none where a plain value does."""
    inside = schema.get("additionalProperties")
    if isinstance(inside, dict):
        return tables_in(inside)
    options = [schema, *schema.get("oneOf", ()), *schema.get("anyOf", ())]
    for option in schema.get("anyOf", ()):
        options += option.get("oneOf", ())
    return [option["$ref"].rpartition("/")[2] for option in options if "$ref" in option]


def type_of(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    """What values are, in words; the words that are values between backquotes."""
    if isinstance(schema.get("additionalProperties"), dict):
        return "tables with names"
    if names := tables_in(schema):
        kinds = [kind for name in names for kind in kinds_in(definitions[name])]
        return f"table: {', '.join(f'`{kind}`' for kind in kinds)}" if len(names) > 1 else "table"
    plain = _plain(schema)
    choices = [schema["const"]] if "const" in schema else schema.get("enum") or plain.get("enum")
    if choices:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in choices)
    names_of_types = {"integer": "whole number", "number": "number", "boolean": "truth value", "string": "text"}
    if plain["type"] == "array":
        return f"list of {names_of_types[plain['items']['type']]}s"
    return "path" if plain.get("format") == "path" else names_of_types[plain["type"]]


def _plain(schema: Schema) -> Schema:
    """The value that an optional key has when it has one."""
    return next((option for option in schema.get("anyOf", ()) if option.get("type") != "null"), schema)


def default_of(key: str, schema: Schema, table: Schema) -> str:
    """What a key of a table is where it is not given."""
    if "default" not in schema:
        derived = key in ("output", "layers") or key not in table.get("required", ())
        return "see meaning" if derived else "**must be given**"
    default = schema["default"]
    if default is None:
        return "none"
    return f"`{default['kind']}`" if isinstance(default, dict) and "kind" in default else _value(default)


def _value(default: Any) -> str:
    return "its defaults" if isinstance(default, dict) else f"`{json.dumps(default)}`"


def range_of(schema: Schema) -> str:
    """What bounds a number, in words."""
    plain = _plain(schema)
    words = (
        ("minimum", "at least"),
        ("exclusiveMinimum", "above"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "below"),
    )
    return ", ".join(f"{word} {_number(plain[name])}" for name, word in words if name in plain)


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"
