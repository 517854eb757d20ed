"""Overrides of recipe keys from the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from heedful.errors import RecipeError
from heedful.files import MAX_TOML_DEPTH, parse_toml
from heedful.recipes.config import (
    UNKNOWN_TYPE,
    Config,
    KeyType,
    get_key_type,
    get_key_types,
    list_kinds,
)


def group_options(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield each word alone, but an option `--name` together with the next word as its value, unless that is an option
    too.

    All words from `--` on form one group, because they cannot be options.
    """
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            yield (word, *remaining)
            return
        is_alone = not word.startswith("--") or "=" in word or not remaining or remaining[0].startswith("--")
        yield (word,) if is_alone else (word, remaining.pop(0))


def split_options(words: Sequence[str], *, is_foreign: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """Split words into those of the command itself and the foreign options, each with its value. `is_foreign` says
    whether an option with this name, without "--", is foreign.
    """
    own_words: list[str] = []
    foreign_words: list[str] = []
    for group in group_options(words):
        belongs_to_others = (
            group[0].startswith("--") and group[0] != "--" and is_foreign(group[0][2:].partition("=")[0])
        )
        (foreign_words if belongs_to_others else own_words).extend(group)
    return own_words, foreign_words


NestedTable = dict[str, Any]
_MAX_OVERRIDES = 1000
"""Largest number of options that change a recipe; a recipe has some hundred keys."""
_MAX_SHOWN = 40
"""Number of characters shown of a key that is too long."""


@dataclass(frozen=True)
class Override:
    """One option `--a.b value`.

    Attributes:
        path: the key, with `_`.
        text: its value; None for a flag that stands alone.
        typed_path: the key as typed, before `-` became `_`.
    """

    path: tuple[str, ...]
    text: str | None
    typed_path: tuple[str, ...]

    @property
    def flag(self) -> str:
        """The option as one types it."""
        return "--" + ".".join(self.path)


def parse_overrides(arguments: Sequence[str]) -> tuple[Override, ...]:
    """Parse command-line arguments such as `--training.steps 2000` as overrides of a recipe; raise `RecipeError` for
    anything else.
    """
    overrides: list[Override] = []
    for word, *value in group_options(arguments):
        name, equals, text = word.partition("=")
        typed_path = tuple(name[2:].split("."))
        path = tuple(key_part.replace("-", "_") for key_part in typed_path)
        if not word.startswith("--") or not all(path):
            raise RecipeError(
                f"command line: {word!r} is not an option; a recipe is changed by --key value, as in --training.steps "
                "2000"
            )
        if len(path) > MAX_TOML_DEPTH:
            raise RecipeError(
                f"command line: {name[:_MAX_SHOWN]}... is a key of {len(path):,} parts, and {MAX_TOML_DEPTH} are the "
                "maximum"
            )
        overrides.append(Override(path, text if equals else next(iter(value), None), typed_path))
        if len(overrides) > _MAX_OVERRIDES:
            raise RecipeError(f"command line: has more than {_MAX_OVERRIDES:,} options; write a recipe with these keys")
    return tuple(overrides)


def resolve_paths(table: Mapping[str, Any], config_class: type[Config], folder: Path) -> NestedTable:
    """Return the table with its recipe-relative paths made absolute, relative to `folder`."""
    return {key: _resolve_value(value, get_key_type(config_class, key), folder) for key, value in table.items()}


def _resolve_value(value: Any, key_type: KeyType, folder: Path) -> Any:
    """Return the value of a key of this type, with recipe-relative paths in it made absolute from `folder`."""
    if isinstance(value, Mapping):
        if key_type.value_type is not None:
            return {name: _resolve_value(entry, key_type.value_type, folder) for name, entry in value.items()}
        config_class = key_type.select_class(value)
        return dict(value) if config_class is None else resolve_paths(value, config_class, folder)
    if isinstance(value, list) and key_type.is_recipe_relative:
        return [_resolve_value(entry, key_type, folder) for entry in value]
    if isinstance(value, str) and value and "\0" not in value and key_type.is_recipe_relative:
        return str((folder / value).resolve())
    return value


def merge_overrides(table: Mapping[str, Any], overrides: Sequence[Override], root: type[Config]) -> NestedTable:
    """Return a table of the class `root` with the overrides applied; unknown keys are kept for the validator to report.

    Kinds are applied first and shorthands second, in any order on the command line, so that other options apply to the
    final tables. A new kind keeps the keys that it shares with the old one.
    """
    result = dict(table)
    for override in sorted(overrides, key=lambda override: _sort_key(override, root)):
        result = _set_value(result, root, override, override.path)
    return result


def _sort_key(override: Override, root: type[Config]) -> tuple[int, int]:
    """Return the key by which overrides are sorted: kinds, then shorthands, then all others. `root` is the class of the
    recipe.
    """
    *tables, last = override.path
    if last == "kind":
        return 0, len(tables)
    config_class: type[Config] | None = root
    for name in tables:
        candidates = get_key_type(config_class, name).config_classes
        config_class = candidates[0] if candidates else None
    return (1 if config_class and last in config_class.shorthands else 2), 0


def _set_value(
    table: NestedTable, config_class: type[Config] | None, override: Override, path: tuple[str, ...]
) -> NestedTable:
    """Return a table with an override applied at a path within it. `config_class` is the class of the table, None if it
    is unknown.
    """
    name, *rest = path
    key_type = get_key_type(config_class, name)
    if not rest:
        covered_keys = config_class.shorthands.get(name, ()) if config_class else ()
        kept = {key: entry for key, entry in table.items() if key not in covered_keys}
        return kept | {name: _parse_value(override, key_type)}
    return table | {name: _set_nested_value(table.get(name, {}), key_type, override, tuple(rest))}


def _set_nested_value(table: Any, key_type: KeyType, override: Override, path: tuple[str, ...]) -> NestedTable:
    """Return the nested table of a key of this type, with an override applied at a path within it. Raise `RecipeError`
    if there is a plain value instead of a table.
    """
    if not isinstance(table, Mapping):
        key = override.path[: -len(path)]
        raise RecipeError(
            f"command line: {override.flag} cannot be set, because {'.'.join(key)} is not a table in the recipe"
        )
    if (value_type := key_type.value_type) is not None:
        name = _match_user_name(table, override, path)
        if len(path) == 1:
            return {**table, name: _parse_value(override, value_type)}
        return {**table, name: _set_nested_value(table.get(name, {}), value_type, override, path[1:])}
    if path == ("kind",) and len(key_type.config_classes) > 1:
        table = _convert_kind(table, key_type, str(_parse_value(override, UNKNOWN_TYPE)))
    nested_class = key_type.select_class({path[0]: override.text, **table})  # the key itself may determine the kind
    return _set_value(dict(table), nested_class, override, path)


def _match_user_name(table: Mapping[str, Any], override: Override, path: tuple[str, ...]) -> str:
    """Return the user-defined name at the start of a path as the keys of `table` spell it (with "-" or "_"), or as the
    user typed it in the override if there is no such key.
    """
    typed_name = override.typed_path[-len(path)]
    return (
        typed_name
        if typed_name in table
        else next((name for name in table if name.replace("-", "_") == path[0]), typed_name)
    )


def _convert_kind(table: Mapping[str, Any], key_type: KeyType, kind: str) -> NestedTable:
    """Return what a table keeps when its kind changes to `kind`: keys of the new kind and keys that neither kind
    knows.
    """
    old_class = key_type.select_class(table)
    new_class = next((section for section in key_type.config_classes if kind in list_kinds(section)), None)
    if old_class is None or new_class is None:
        return dict(table)
    removed_keys = set(get_key_types(old_class)) - set(get_key_types(new_class))
    kept = {key: entry for key, entry in key_type.add_kind(table).items() if key not in removed_keys}
    return kept | {"kind": kind}


def _parse_value(override: Override, key_type: KeyType) -> Any:
    """Parse the text of an override as the value of a key of this type; raise `RecipeError` if it has none and the key
    needs one.
    """
    types = key_type.parts
    if override.text is None:
        if bool in types:
            return True
        raise RecipeError(f"command line: {override.flag} needs a value, as in {override.flag} VALUE")
    if override.text == "none" and NoneType in types:
        return None
    value = _parse_toml_value(override.text)
    is_text = str in types or Path in types or any(isinstance(choice, str) for choice in key_type.choices)
    if not isinstance(value, str) and type(value) not in types and is_text:
        value = override.text
    return _resolve_value(value, key_type, Path.cwd())


def _parse_toml_value(text: str) -> Any:
    """Parse text as a TOML value; return the text itself if it is not one."""
    try:
        table = parse_toml(f"value = {text}")
    except ValueError:
        return text
    return table["value"] if set(table) == {"value"} else text
