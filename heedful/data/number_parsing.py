"""Numbers as people write them in tables: with a point or a comma, as a percentage, with signs of other keyboards."""

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
"""The words of spreadsheets, of R and of pandas; `none` is not among them, since it is the name of a class too."""


def parse_number(text: str) -> float | None:
    """The finite number that a text is; None where it is none, or can be read in two ways.

    `45 %` is 0.45, `3,5` is 3.5, and a minus may be the sign U+2212. `1,234` can be read in two ways.
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
    """Whether a text is what spreadsheets and programs write where nothing is known, such as `NaN` or `N/A`."""
    return not text.strip() or text.strip() in _MISSING_VALUES
