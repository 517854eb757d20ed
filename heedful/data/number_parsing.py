"""Parse numbers as people write them in tables: with a point or a comma, as a percentage, with Unicode minus signs."""

from __future__ import annotations

import re
from math import isfinite
from typing import Final

_NUMBER: Final = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:e[+-]?\d+)?", re.IGNORECASE)
_THOUSANDS: Final = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_MISSING_VALUES: Final = frozenset(
    {
        "NaN",
        "nan",
        "NAN",
        "-nan",
        "NA",
        "na",
        "N/A",
        "n/a",
        "n.a.",
        "#N/A",
        "<NA>",
        "NULL",
        "null",
        "Null",
        "None",
        "nil",
    }
    | {"#VALUE!", "missing", "?", "-", "--", "."}
)
"""Missing values as written by spreadsheets, R and pandas; `none` is not among them, since it may be the name of a
class."""


def parse_number(text: str) -> float | None:
    """Parse a text as a finite number; return None if it is not a number, or is ambiguous.

    `45 %` is 0.45, `3,5` is 3.5, and a minus may be the sign U+2212. `1,234` is ambiguous.
    """
    plain = text.strip().replace("\u2212", "-")
    is_percentage = plain.endswith("%")
    plain = plain.removesuffix("%").rstrip()
    if not _NUMBER.fullmatch(plain) or _THOUSANDS.fullmatch(plain):
        return None
    value = float(plain.replace(",", "."))
    if is_percentage:
        value /= 100
    return value if isfinite(value) else None


def is_missing_value(text: str) -> bool:
    """Return whether a text is empty or a marker of a missing value, such as `NaN` or `N/A`."""
    return not text.strip() or text.strip() in _MISSING_VALUES
