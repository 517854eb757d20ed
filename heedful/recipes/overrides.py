"""Command-line overrides of a recipe, merged into its tables before validation.

`--training.steps 2000` and `--training.steps=2000` set one key; `-` and `_` are the same in a key. A value is parsed as
TOML where that is possible and is text otherwise; values of text keys are always text (`--output 2024`). `none` removes
an optional value. A truth value may stand alone (`--training.tensorboard`). Paths are relative to the current folder,
like all others on a command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from heedful.errors import RecipeError
from heedful.files import MAX_TOML_DEPTH, parse_toml
from heedful.recipes.config import (
    Config,
    RecipeRelative,
    add_kind,
    get_config_classes,
    get_dict_value_annotation,
    get_key_annotations,
    iter_annotation_parts,
    list_kinds,
    select_config_class,
)
from heedful.recipes.option_words import group_options

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
    """Parse the overrides in a list of arguments; raise RecipeError for anything else."""
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
    annotations = get_key_annotations(config_class)
    return {key: _resolve_value(value, annotations.get(key), folder) for key, value in table.items()}


def _resolve_value(value: Any, annotation: Any, folder: Path) -> Any:
    """Resolve the recipe-relative paths in a value."""
    if isinstance(value, Mapping):
        if (value_annotation := get_dict_value_annotation(annotation)) is not None:
            return {name: _resolve_value(entry, value_annotation, folder) for name, entry in value.items()}
        config_class = select_config_class(annotation, value)
        return dict(value) if config_class is None else resolve_paths(value, config_class, folder)
    if isinstance(value, str) and value and "\0" not in value and _is_path(annotation):
        return str((folder / value).resolve())
    return value


def _is_path(annotation: Any) -> bool:
    """Whether an annotation marks a recipe-relative path."""
    return any(isinstance(metadata, RecipeRelative) for metadata in iter_annotation_parts(annotation))


def merge_overrides(table: Mapping[str, Any], overrides: Sequence[Override], root: type[Config]) -> NestedTable:
    """Return the table with the overrides applied; unknown keys are kept for the validator to report.

    Kinds are applied first and shorthands second, in any order on the command line, so that other options apply to the
    final tables. A new kind keeps the keys that it shares with the old one.
    """
    result = dict(table)
    for override in sorted(overrides, key=lambda override: _sort_key(override, root)):
        result = _set_value(result, root, override, override.path)
    return result


def _sort_key(override: Override, root: type[Config]) -> tuple[int, int]:
    """Return the key by which overrides are sorted: kinds, then shorthands, then all others."""
    *tables, last = override.path
    if last == "kind":
        return 0, len(tables)
    config_class: type[Config] | None = root
    for name in tables:
        candidates = get_config_classes(get_key_annotations(config_class).get(name)) if config_class else ()
        config_class = candidates[0] if candidates else None
    return (1 if config_class and last in config_class.shorthands else 2), 0


def _set_value(
    table: NestedTable, config_class: type[Config] | None, override: Override, path: tuple[str, ...]
) -> NestedTable:
    """Return a table with an override applied at a path."""
    name, *rest = path
    annotation = get_key_annotations(config_class).get(name) if config_class else None
    if not rest:
        covered_keys = config_class.shorthands.get(name, ()) if config_class else ()
        kept = {key: entry for key, entry in table.items() if key not in covered_keys}
        return kept | {name: _parse_value(override, annotation)}
    return table | {name: _set_nested_value(table.get(name, {}), annotation, override, tuple(rest))}


def _set_nested_value(table: Any, annotation: Any, override: Override, path: tuple[str, ...]) -> NestedTable:
    """Return the nested table that an annotation describes, with an override applied at a path."""
    if not isinstance(table, Mapping):
        key = override.path[: -len(path)]
        raise RecipeError(
            f"command line: {override.flag} cannot be set, because {'.'.join(key)} is not a table in the recipe"
        )
    if (value_annotation := get_dict_value_annotation(annotation)) is not None:
        name = _match_user_name(table, override, path)
        if len(path) == 1:
            return {**table, name: _parse_value(override, value_annotation)}
        return {**table, name: _set_nested_value(table.get(name, {}), value_annotation, override, path[1:])}
    if path == ("kind",) and len(get_config_classes(annotation)) > 1:
        table = _convert_kind(table, annotation, str(_parse_value(override, None)))
    # The key itself may be what tells the kind.
    nested_class = (
        select_config_class(annotation, {path[0]: override.text, **table}) if get_config_classes(annotation) else None
    )
    return _set_value(dict(table), nested_class, override, path)


def _match_user_name(table: Mapping[str, Any], override: Override, path: tuple[str, ...]) -> str:
    """Return a user-defined name as the recipe spells it, or as typed if the recipe has no such name."""
    typed_name = override.typed_path[-len(path)]
    return (
        typed_name
        if typed_name in table
        else next((name for name in table if name.replace("-", "_") == path[0]), typed_name)
    )


def _convert_kind(table: Mapping[str, Any], annotation: Any, kind: str) -> NestedTable:
    """Return what a table keeps when its kind changes: keys of the new kind and keys that neither kind knows."""
    old_class = select_config_class(annotation, table)
    new_class = next((section for section in get_config_classes(annotation) if kind in list_kinds(section)), None)
    if old_class is None or new_class is None:
        return dict(table)
    removed_keys = set(get_key_annotations(old_class)) - set(get_key_annotations(new_class))
    kept = {key: entry for key, entry in add_kind(annotation, table).items() if key not in removed_keys}
    return kept | {"kind": kind}


def _parse_value(override: Override, annotation: Any) -> Any:
    """Parse the value of an override for an annotation."""
    types = tuple(iter_annotation_parts(annotation))
    if override.text is None:
        if bool in types:
            return True
        raise RecipeError(f"command line: {override.flag} needs a value, as in {override.flag} VALUE")
    if override.text == "none" and NoneType in types:
        return None
    value = _parse_toml_value(override.text)
    if not isinstance(value, str) and type(value) not in types and any(_is_text(kind) for kind in types):
        value = override.text
    return _resolve_value(value, annotation, Path.cwd())


def _is_text(value_type: Any) -> bool:
    """Whether a type is text: a string, a path, or a choice of words."""
    return value_type in (str, Path) or (get_origin(value_type) is Literal and isinstance(get_args(value_type)[0], str))


def _parse_toml_value(text: str) -> Any:
    """Parse text as a TOML value; return the text itself if it is not one."""
    try:
        table = parse_toml(f"value = {text}")
    except ValueError:
        return text
    return table["value"] if set(table) == {"value"} else text
