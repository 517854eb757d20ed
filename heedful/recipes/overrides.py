"""What the command line says about a recipe, merged into its tables before anything is checked.

`--training.steps 2000` and `--training.steps=2000` set one key; `-` and `_` are the same in a key. A value
is read as TOML where that is possible and as text otherwise, except that keys whose value is text never
become anything else (`--output 2024`). `none` takes a value away that the recipe may do without. A truth
value may stand alone (`--training.tensorboard`). Paths are counted from the current folder, as all else on
a command line is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from heedful.errors import RecipeError
from heedful.files import DEEPEST_TABLE, parse_toml
from heedful.recipes.options import grouped
from heedful.recipes.section import Anchor, Section, complete, keys, kinds_of, member, members, named, parts

Nest = dict[str, Any]
_MOST = 1000
"""Options that change a recipe; it has some hundred keys."""
_SHOWN = 40
"""Characters of a key that is too long."""


@dataclass(frozen=True)
class Override:
    """One `--a.b value`: `text` is None where a flag stands alone, `typed` the path before `-` became `_`."""

    path: tuple[str, ...]
    text: str | None
    typed: tuple[str, ...]

    @property
    def flag(self) -> str:
        """The key as one types it."""
        return "--" + ".".join(self.path)


def read_overrides(arguments: Sequence[str]) -> tuple[Override, ...]:
    """The overrides in a list of arguments; RecipeError for anything that is none."""
    found: list[Override] = []
    for word, *value in grouped(arguments):
        name, equals, text = word.partition("=")
        typed = tuple(name[2:].split("."))
        path = tuple(part.replace("-", "_") for part in typed)
        if not word.startswith("--") or not all(path):
            raise RecipeError(
                f"command line: {word!r} is no option; a recipe is changed by --key value, as in --training.steps 2000"
            )
        if len(path) > DEEPEST_TABLE:
            raise RecipeError(
                f"command line: {name[:_SHOWN]}... is a key of {len(path):,} parts, and {DEEPEST_TABLE} are the most"
            )
        found.append(Override(path, text if equals else next(iter(value), None), typed))
        if len(found) > _MOST:
            raise RecipeError(f"command line: has more than {_MOST:,} options; write a recipe with these keys")
    return tuple(found)


def anchored(table: Mapping[str, Any], section: type[Section], folder: Path) -> Nest:
    """The table with each path that is counted from somewhere counted from `folder`, absolute."""
    annotations = keys(section)
    return {key: _anchored(part, annotations.get(key), folder) for key, part in table.items()}


def _anchored(content: Any, annotation: Any, folder: Path) -> Any:
    if isinstance(content, Mapping):
        if (inside := named(annotation)) is not None:
            return {name: _anchored(part, inside, folder) for name, part in content.items()}
        section = member(annotation, content)
        return dict(content) if section is None else anchored(content, section, folder)
    if isinstance(content, str) and content and "\0" not in content and _is_path(annotation):
        return str((folder / content).resolve())
    return content


def _is_path(annotation: Any) -> bool:
    return any(isinstance(part, Anchor) for part in parts(annotation))


def merge(table: Mapping[str, Any], overrides: Sequence[Override], root: type[Section]) -> Nest:
    """The table with the overrides in it; unknown keys go in as well, for the validator to complain about.

    Kinds go first and shorthands second, whatever the order on the command line, so that other options
    speak about the tables that will be there. A new kind keeps the keys that it shares with the old one.
    """
    result = dict(table)
    for override in sorted(overrides, key=lambda override: _turn(override, root)):
        result = _set(result, root, override, override.path)
    return result


def _turn(override: Override, root: type[Section]) -> tuple[int, int]:
    *tables, last = override.path
    if last == "kind":
        return 0, len(tables)
    section: type[Section] | None = root
    for name in tables:
        possible = members(keys(section).get(name)) if section else ()
        section = possible[0] if possible else None
    return (1 if section and last in section.shorthands else 2), 0


def _set(table: Nest, section: type[Section] | None, override: Override, path: tuple[str, ...]) -> Nest:
    name, *rest = path
    annotation = keys(section).get(name) if section else None
    if not rest:
        covered = section.shorthands.get(name, ()) if section else ()
        kept = {key: part for key, part in table.items() if key not in covered}
        return kept | {name: _read(override, annotation)}
    return table | {name: _set_below(table.get(name, {}), annotation, override, tuple(rest))}


def _set_below(table: Any, annotation: Any, override: Override, path: tuple[str, ...]) -> Nest:
    """What stands where `annotation` does, with the override in it at `path`."""
    if not isinstance(table, Mapping):
        key = override.path[: -len(path)]
        raise RecipeError(f"command line: {override.flag} cannot be set as {'.'.join(key)} is no table in the recipe")
    if (inside := named(annotation)) is not None:
        name = _spelled(table, override, path)
        if len(path) == 1:
            return {**table, name: _read(override, inside)}
        return {**table, name: _set_below(table.get(name, {}), inside, override, path[1:])}
    if path == ("kind",) and len(members(annotation)) > 1:
        table = _of_kind(table, annotation, str(_read(override, None)))
    # The key itself may be what tells the kind.
    inner = member(annotation, {path[0]: override.text, **table}) if members(annotation) else None
    return _set(dict(table), inner, override, path)


def _spelled(table: Mapping[str, Any], override: Override, path: tuple[str, ...]) -> str:
    """A name of the user's own as the recipe has it, or as it was typed where the recipe has none like it."""
    typed = override.typed[-len(path)]
    return typed if typed in table else next((name for name in table if name.replace("-", "_") == path[0]), typed)


def _of_kind(table: Mapping[str, Any], annotation: Any, kind: str) -> Nest:
    """What a table keeps when its kind changes: keys of the new kind, and those that neither kind knows."""
    old = member(annotation, table)
    new = next((section for section in members(annotation) if kind in kinds_of(section)), None)
    if old is None or new is None:
        return dict(table)
    lost = set(keys(old)) - set(keys(new))
    kept = {key: part for key, part in complete(annotation, table).items() if key not in lost}
    return kept | {"kind": kind}


def _read(override: Override, annotation: Any) -> Any:
    kinds = tuple(parts(annotation))
    if override.text is None:
        if bool in kinds:
            return True
        raise RecipeError(f"command line: {override.flag} needs a value, as in {override.flag} VALUE")
    if override.text == "none" and NoneType in kinds:
        return None
    content = _parse(override.text)
    if not isinstance(content, str) and type(content) not in kinds and any(_is_text(kind) for kind in kinds):
        content = override.text
    return _anchored(content, annotation, Path.cwd())


def _is_text(kind: Any) -> bool:
    return kind in (str, Path) or (get_origin(kind) is Literal and isinstance(get_args(kind)[0], str))


def _parse(text: str) -> Any:
    try:
        table = parse_toml(f"value = {text}")
    except ValueError:
        return text
    return table["value"] if set(table) == {"value"} else text
