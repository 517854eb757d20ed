"""Check whether the numbers of a text occur in its translation, in any number format."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, TypeAlias

_SPACES: Final = " \u00a0\u2009\u202f"
_NUMBER: Final = re.compile(
    rf"\d{{1,3}}(?:[{_SPACES}]\d{{3}}(?!\d))+(?:[.,]\d+)?(?!\d)"  # thousands with spaces between them
    r"|\d+(?:[.,:'\u2019]\d+)*"
)
_POINTS: Final = (".", ",")

NumberReadings: TypeAlias = frozenset[tuple[str, ...]]


def count_kept_numbers(source: str, translation: str) -> tuple[int, int]:
    """Return how many numbers of the source occur in its translation, and how many there are; only digits count.

    Each occurrence counts. `1,000.5`, `1.000,5`, `1 000,5` and `1000.5` are one number, and so are `10:30` and `10.30`,
    and the digits of all scripts; `3.5` and `35` are two.
    """
    source_numbers, target_numbers = _find_numbers(source), _find_numbers(translation)
    num_kept = 0
    for number in source_numbers:
        match = next((candidate for candidate, other in enumerate(target_numbers) if number & other), None)
        if match is not None:
            del target_numbers[match]
            num_kept += 1
    return num_kept, len(source_numbers)


def _find_numbers(text: str) -> list[NumberReadings]:
    return [_list_readings(number) for number in _NUMBER.findall(text)]


def _list_readings(number: str) -> NumberReadings:
    """Return all readings of a number: with its separators, without thousands separators, and with a fraction."""
    runs = ["".join(str(unicodedata.decimal(digit)) for digit in run) for run in re.findall(r"\d+", number)]
    separators = re.findall(r"\D", number)
    readings = {tuple(runs)}
    if _are_thousands(runs, separators):
        readings.add(("".join(runs),))
    if (
        len(runs) > 2
        and separators[-1] in _POINTS
        and separators[-1] != separators[-2]
        and _are_thousands(runs[:-1], separators[:-1])
    ):
        readings.add(("".join(runs[:-1]), runs[-1]))
    return frozenset(readings)


def _are_thousands(runs: Sequence[str], separators: Sequence[str]) -> bool:
    """Return whether the runs may be one integer with thousands separators; Indian style has groups of two digits."""
    return (
        len(set(separators)) == 1
        and separators[0] != ":"
        and len(runs[0]) <= 3
        and not runs[0].startswith("0")
        and all(len(run) in (2, 3) for run in runs[1:-1])
        and len(runs[-1]) == 3
    )
