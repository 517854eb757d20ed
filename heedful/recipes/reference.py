"""Reference of all recipe keys of all tasks: type, default, range and meaning, taken from the JSON Schema of the
recipes.

`docs/recipe.md` is a page of it, and `heedful recipe KEY` explains one key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from heedful.recipes.load import json_schema
from heedful.recipes.recipe import get_recipe_class

Schema: TypeAlias = Mapping[str, Any]

_AUTO_KEY_NOTE: Final = "; chosen from the data and the time if the recipe does not set it"


@dataclass(frozen=True)
class RecipeKey:
    """A key in one kind of a table.

    Attributes:
        path: dotted name, with NAME for user-defined parts.
        selector: the key that selects the kind of its table, and the words for this kind; empty if there is only one
            kind.
        type: type of its values, in words.
        default: default value, in words if there is none.
        range: range of its values, in words; empty if there is none.
        description: its meaning.
        is_table: whether it is a table with keys of its own.
    """

    path: str
    selector: tuple[str, tuple[str, ...]]
    type: str
    default: str
    range: str
    description: str
    is_table: bool


def list_keys(task: str) -> list[RecipeKey]:
    """List all keys of a task's recipe, of all kinds of its tables, in their order."""
    schema, auto_keys = json.loads(json_schema(task)), set(get_recipe_class(task).auto_keys)
    keys = dict.fromkeys(_iter_keys("", schema, [schema], schema["$defs"]))
    return [
        replace(key, description=key.description + _AUTO_KEY_NOTE)
        if key.path in auto_keys and _is_chosen_by_task(key)
        else key
        for key in keys
    ]


def _is_chosen_by_task(key: RecipeKey) -> bool:
    """Whether a key belongs to a kind of table that tasks choose."""
    return not key.path.startswith("model.") or key.selector[1] in ((), ("transformer",))


def _iter_keys(
    path: str, table: Schema, kinds: Sequence[Schema], definitions: Mapping[str, Schema]
) -> Iterator[RecipeKey]:
    """Yield the keys of a table, which may be of several kinds, and of the tables in it. `path` stands before each key,
    `kinds` are the schemas of the kinds, and `definitions` the schemas of all tables by name.
    """
    if len(kinds) > 1:
        yield _build_kind_key(path, table, kinds)
    for kind in kinds:
        selector = (f"{path}kind", tuple(list_schema_kinds(kind))) if len(kinds) > 1 else ("", ())
        for name, schema in kind["properties"].items():
            if name == "kind" and len(kinds) > 1:
                continue
            nested_tables = [definitions[table_name] for table_name in list_schema_tables(schema)]
            yield RecipeKey(
                path=f"{path}{name}",
                selector=selector,
                type=describe_type(schema, definitions),
                default=describe_default(name, schema, kind),
                range=describe_range(schema),
                description=" ".join(schema.get("description", "there is only this kind so far").split()),
                is_table=bool(nested_tables),
            )
            name_part = "NAME." if isinstance(schema.get("additionalProperties"), dict) else ""
            yield from _iter_keys(f"{path}{name}.{name_part}", schema, nested_tables, definitions)


def _build_kind_key(path: str, table: Schema, kinds: Sequence[Schema]) -> RecipeKey:
    """Build the entry of the key `kind` of a table, which selects one of the schemas `kinds`. `path` stands before the
    key.
    """
    words = [word for kind in kinds for word in list_schema_kinds(kind)]
    default = (table.get("default") or {}).get("kind")
    descriptions = (
        f"{' or '.join(list_schema_kinds(kind))}: {' '.join(kind.get('description', '').split())}" for kind in kinds
    )
    return RecipeKey(
        path=f"{path}kind",
        selector=("", ()),
        type=", ".join(f"`{json.dumps(word)}`" for word in words),
        default="see meaning" if default is None else f"`{json.dumps(default)}`",
        range="",
        description=f"which keys the table has. {' '.join(descriptions)}",
        is_table=False,
    )


def list_schema_kinds(schema: Schema) -> list[str]:
    """Return the values of `kind` that select the table of a JSON schema, the default first."""
    kind = schema["properties"].get("kind", {})
    first = [kind["default"]] if "default" in kind else []
    return list(dict.fromkeys((*first, *kind.get("enum", ()), *([kind["const"]] if "const" in kind else ()))))


def is_default(schema: Schema, default: Schema | None) -> bool:
    """Whether a table is of this kind by default."""
    return (default or {}).get("kind") in list_schema_kinds(schema)


def list_schema_tables(schema: Schema) -> list[str]:
    """Return the names of the tables that a schema allows; empty for plain values."""
    value_schema = schema.get("additionalProperties")
    if isinstance(value_schema, dict):
        return list_schema_tables(value_schema)
    options = [schema, *schema.get("oneOf", ()), *schema.get("anyOf", ())]
    for option in schema.get("anyOf", ()):
        options += option.get("oneOf", ())
    return [option["$ref"].rpartition("/")[2] for option in options if "$ref" in option]


def describe_type(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    """Describe the type of the values of a JSON schema in words; literal values are in backquotes. `definitions` holds
    the schemas of tables by name.
    """
    if isinstance(schema.get("additionalProperties"), dict):
        return "tables with names"
    if names := list_schema_tables(schema):
        kinds = [kind for name in names for kind in list_schema_kinds(definitions[name])]
        return f"table: {', '.join(f'`{kind}`' for kind in kinds)}" if len(names) > 1 else "table"
    value_schema = _unwrap_optional(schema)
    choices = [schema["const"]] if "const" in schema else schema.get("enum") or value_schema.get("enum")
    if choices:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in choices)
    names_of_types = {"integer": "whole number", "number": "number", "boolean": "truth value", "string": "text"}
    if value_schema["type"] == "array":
        return f"list of {names_of_types[value_schema['items']['type']]}s"
    return "path" if value_schema.get("format") == "path" else names_of_types[value_schema["type"]]


def _unwrap_optional(schema: Schema) -> Schema:
    return next((option for option in schema.get("anyOf", ()) if option.get("type") != "null"), schema)


def describe_default(key: str, schema: Schema, table: Schema) -> str:
    """Describe the default of a key; `schema` is that of its value, and `table` that of the table that contains it."""
    if "default" not in schema:
        derived = key in ("output", "layers") or key not in table.get("required", ())
        return "see meaning" if derived else "**must be given**"
    default = schema["default"]
    if default is None:
        return "none"
    return f"`{default['kind']}`" if isinstance(default, dict) and "kind" in default else _format_default(default)


def _format_default(default: Any) -> str:
    return "its defaults" if isinstance(default, dict) else f"`{json.dumps(default)}`"


def describe_range(schema: Schema) -> str:
    """Describe the range of the numbers that a JSON schema allows, in words; empty if there are no bounds."""
    value_schema = _unwrap_optional(schema)
    words = (
        ("minimum", "at least"),
        ("exclusiveMinimum", "above"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "below"),
    )
    return ", ".join(f"{word} {_format_number(value_schema[name])}" for name, word in words if name in value_schema)


def _format_number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"
