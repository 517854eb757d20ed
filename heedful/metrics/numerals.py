"""Whether the numbers of a text stand in its translation, whatever its digits are parted by."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, TypeAlias

_SPACES: Final = " \u00a0\u2009\u202f"
_NUMBER: Final = re.compile(
    rf"\d{{1,3}}(?:[{_SPACES}]\d{{3}}(?!\d))+(?:[.,]\d+)?(?!\d)"  # thousands that spaces part
    r"|\d+(?:[.,:'\u2019]\d+)*"
)
_POINTS: Final = (".", ",")

Readings: TypeAlias = frozenset[tuple[str, ...]]


def kept(source: str, text: str) -> tuple[int, int]:
    """How many numbers of a source stand in a translation of it, and how many there are; only digits make numbers.

    Each counts as often as it is there. `1,000.5`, `1.000,5`, `1 000,5` and `1000.5` are one number, and so are `10:30`
    and `10.30`, and digits of all scripts; `3.5` and `35` are two.
    """
    wanted, there = _numbers(source), _numbers(text)
    found = 0
    for number in wanted:
        match = next((place for place, other in enumerate(there) if number & other), None)
        if match is not None:
            del there[match]
            found += 1
    return found, len(wanted)


def _numbers(text: str) -> list[Readings]:
    """From left to right."""
    return [_readings(found) for found in _NUMBER.findall(text)]


def _readings(number: str) -> Readings:
    """All that a number may mean, as runs of digits: as it is parted, without thousands, and with a fraction too."""
    runs = ["".join(str(unicodedata.decimal(digit)) for digit in run) for run in re.findall(r"\d+", number)]
    marks = re.findall(r"\D", number)
    found = {tuple(runs)}
    if _are_thousands(runs, marks):
        found.add(("".join(runs),))
    if len(runs) > 2 and marks[-1] in _POINTS and marks[-1] != marks[-2] and _are_thousands(runs[:-1], marks[:-1]):
        found.add(("".join(runs[:-1]), runs[-1]))
    return frozenset(found)


def _are_thousands(runs: Sequence[str], marks: Sequence[str]) -> bool:
    """Whether these runs may be one whole number; in India all but the last are of two digits."""
    return (
        len(set(marks)) == 1
        and marks[0] != ":"
        and len(runs[0]) <= 3
        and not runs[0].startswith("0")
        and all(len(run) in (2, 3) for run in runs[1:-1])
        and len(runs[-1]) == 3
    )
