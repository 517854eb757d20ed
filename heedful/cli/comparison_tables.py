"""What pages about compared runs have in common, whatever the task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from heedful.inspection.page import Table
from heedful.runs.facts import Facts

NONE: Final = "-"


def number(value: float | None, form: str) -> str:
    """The number as `format` writes it, a dash for none."""
    return NONE if value is None else format(value, form)


def unfinished(facts: Sequence[Facts]) -> Iterator[str]:
    """A note for each run whose training has not reached its end."""
    for each in facts:
        if not each.finished:
            yield f"* {each.name} is not finished: its best checkpoint so far (step {each.step:,}) is compared"


def difference_table(names: Sequence[str], differences: Mapping[str, Sequence[Any]]) -> Table:
    """How recipes differ, key by key."""
    rows = [[key, *map(_value, values)] for key, values in differences.items()]
    return Table("How the recipes differ", ["key", *names], rows)


def _value(value: Any) -> str:
    """As TOML writes it, more or less; a dash where a recipe has no such key."""
    if value is None:
        return NONE
    return str(value).lower() if isinstance(value, bool) else str(value)
