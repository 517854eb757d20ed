"""Labels: the vocabulary of class names, and numbers as people write them in tables."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import Final, final

from heedful.errors import DataError, RunError
from heedful.files import read_json

_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:e[+-]?\d+)?", re.IGNORECASE)
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


_FILE_FORMAT = 1


_MAX_SHOWN: Final = 12
"""Number of names that `repr` shows."""


@final
class LabelVocabulary:
    """Class labels with ids from 0, the most frequent class first.

    Args:
        names: the names of the classes, all different and not empty.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._ids = {name: number for number, name in enumerate(self.names)}

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.names[:_MAX_SHOWN]))
        num_hidden = len(self.names) - _MAX_SHOWN
        return f"LabelVocabulary({shown}{f', ... {num_hidden} more' if num_hidden > 0 else ''})"

    @classmethod
    def learn(cls, labels: Iterable[str]) -> LabelVocabulary:
        """Build the vocabulary of all labels that occur; raise `DataError` if there are none."""
        counts = Counter(labels)
        if not counts:
            raise DataError("there are no labels to learn; check the training files")
        return cls(sorted(counts, key=lambda name: (-counts[name], name)))

    @classmethod
    def load(cls, path: Path) -> LabelVocabulary:
        """Load the file that `save` wrote; raise `RunError` if it holds no labels."""
        try:
            record = read_json(path)
            version, names = record["format"], record["labels"]
        except OSError as error:
            raise RunError(
                f"{path}: cannot be read ({error.strerror}); restore it from a copy or train again"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise RunError(f"{path}: holds no labels; restore it or train again") from None
        if version != _FILE_FORMAT:
            raise RunError(f"{path}: label format {version!r}, but this heedful reads {_FILE_FORMAT}; train again")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise RunError(f"{path}: holds no labels; restore it or train again")
        return cls(names)

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.names)

    def get_id(self, name: str) -> int | None:
        """Return the id of a label; None if it is unknown."""
        return self._ids.get(name)

    def save(self, path: Path) -> None:
        """Write the labels to a file that `load` reads, atomically; raise `RunError` if that fails."""
        text = json.dumps({"format": _FILE_FORMAT, "labels": self.names}, ensure_ascii=False, indent=1) + "\n"
        from heedful.atomic_io import write_atomic  # imports torch, which takes a while

        write_atomic(path, text.encode())
