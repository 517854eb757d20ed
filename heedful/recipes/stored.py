"""Recipes of runs that are older than some of today's keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from heedful.recipes.section import Section, keys, member, members, named


class Missing(NamedTuple):
    """A key that a stored table lacks, and what was done before there was one."""

    path: tuple[str, ...]
    meant: Any


def missing(table: Mapping[str, Any], kind: type[Section], above: tuple[str, ...] = ()) -> Iterator[Missing]:
    """What the recipe of a run lacks because it is older; nothing in one that was stored today."""
    for name, value in kind.formerly(table).items():
        if name not in table:
            yield Missing((*above, name), value)
    for path, annotation, value in _entries(table, kind):
        section = member(annotation, value) if members(annotation) and isinstance(value, Mapping) else None
        if section is not None:
            yield from missing(value, section, (*above, *path))


def completed(table: Mapping[str, Any], kind: type[Section]) -> dict[str, Any]:
    """The recipe of a run with what it meant by the keys that it lacks."""
    found = dict(table)
    for path, meant in missing(table, kind):
        found = _with(found, path, meant)
    return found


def taken_up(recipe: Section, stored: Mapping[str, Any]) -> dict[str, Any] | None:
    """A recipe that is to go on with a run, as a table: keys that the run lacks, and that nobody sets, mean what they
    meant when it began; None where that changes nothing.

    Args:
        recipe: as it was given.
        stored: that of the run, as it lies in its folder.
    """
    former = {path: meant for path, meant in missing(stored, type(recipe)) if _left_open(recipe, path)}
    if not former:
        return None
    table: dict[str, Any] = recipe.model_dump(mode="json", exclude_none=True)
    for path, meant in former.items():
        table = _with(table, path, meant)
    return table


def _entries(table: Mapping[str, Any], kind: type[Section]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """What stands in a table: the path of each value from there, its annotation and the value."""
    for name, annotation in keys(kind).items():
        value, inside = table.get(name), named(annotation)
        if inside is None:
            yield (name,), annotation, value
        elif isinstance(value, Mapping):
            yield from (((name, own), inside, each) for own, each in value.items())


def _left_open(recipe: Section, path: Sequence[str]) -> bool:
    """Whether there is such a key that was not given."""
    *above, name = path
    found: Any = recipe
    for each in above:
        found = found.get(each) if isinstance(found, Mapping) else getattr(found, each, None)
    return isinstance(found, Section) and name in type(found).model_fields and name not in found.model_fields_set


def _with(table: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    name, *rest = path
    return {**table, name: _with(table[name], rest, value) if rest else value}
