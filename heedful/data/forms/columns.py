"""What stands in each column of a table, or in each field of JSON objects."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from heedful.data.forms.languages import language_called
from heedful.data.written_numbers import is_missing, number_in

_MANY: Final = 2000
"""Different values of a column that are counted, at most."""
_LABELS: Final = 200
"""Different values that a label may have, at most."""
_LABEL_NAMES: Final = re.compile(
    r"labels?|class(es)?|category|categories|tag|target|sentiment|polarity|intent|topic|gold(_label)?|quality|y|"
    r"rating|stars|score|similarity|is_duplicate|answer|verdict|emotion"
)
_ID_NAMES: Final = re.compile(
    r"#?\s*\d*\s*(id|idx|index|nr|no|num|number|guid|uuid|url|pairid|promptid)|.*[ _-]id|.*_url"
)
_LETTER: Final = re.compile(r"[^\W\d_]")
_NAME: Final = re.compile(r"#?\w[\w #.()/-]{0,39}")
_KNOWN_NAMES: Final = re.compile(
    rf"(?:{_LABEL_NAMES.pattern}|{_ID_NAMES.pattern}|text\d?|sentence_?\d?|source|src|target|tgt|title|description|review|"
    r"question\d?|context|answers?|premise|hypothesis|content|body|message|comment|words?|#\d string|lang\w*)"
)


@dataclass(frozen=True)
class Profile:
    """What the values of one column are like.

    Attributes:
        name: of the column, or its number, counted from 0.
        number: of the column.
        rows: values that were looked at.
        filled: how many of them are not empty.
        counts: how often each value occurs; those of a column with very many different ones are not complete.
        words: words of a value in the mean.
        letters: share of values with a letter.
        numeric: share of values that are numbers, among those that do not stand for a missing one.
        rising: whether values are whole numbers, each larger than the one before.
    """

    name: str
    number: int
    rows: int
    filled: int
    counts: Mapping[str, int]
    words: float
    letters: float
    numeric: float
    rising: bool

    @property
    def distinct(self) -> int:
        """How many different values there are; not below 2,000 where there are more."""
        return len(self.counts)

    @property
    def varied(self) -> float:
        """Share of values that are different ones."""
        return self.distinct / max(1, min(self.filled, _MANY))

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers that measure something."""
        return self.numeric >= 0.98 and not self.is_id

    @property
    def is_id(self) -> bool:
        """Whether it only says which row this is."""
        if _ID_NAMES.fullmatch(self.name.lower()):
            return True
        bare = self.words <= 1.01 and self.varied > 0.95 and self.rows >= 20
        has_digits = any(map(str.isdigit, "".join(list(self.counts)[:50])))
        return bare and (self.rising or (has_digits and not self.numeric))

    @property
    def is_label(self) -> bool:
        """Whether it has so few different values that they may be classes."""
        few = 2 <= self.distinct <= min(_LABELS, max(2, self.filled // 3))
        numbers = (number_in(value) for value in self.counts)
        whole = self.numeric < 0.98 or all(number is None or number.is_integer() for number in numbers)
        least = 0.5 if self.is_called_label else 0.9
        return few and whole and self.words <= 6 and self.filled >= least * self.rows and not _is_measured(self)

    @property
    def is_constant(self) -> bool:
        """Whether it has one short value everywhere."""
        return self.filled >= 0.9 * self.rows and self.rows > 1 and len({*self.counts} - {""}) == 1 and self.words <= 6

    @property
    def is_text(self) -> bool:
        """Whether it holds free text."""
        if self.is_id or self.numeric > 0.5 or self.letters < 0.6 or self.filled < 0.5 * self.rows:
            return False
        return not (self.is_label or self.is_constant) or self.words > 3

    @property
    def is_called_label(self) -> bool:
        """Whether its name says that it is one."""
        return bool(_LABEL_NAMES.fullmatch(self.name.lower().strip()))

    @property
    def labelness(self) -> tuple[bool, float]:
        """How probable it is that this is the label, among columns that may be."""
        return self.is_called_label, -self.distinct / max(1, self.rows) - (0.5 if "" in self.counts else 0)


def _is_measured(profile: Profile) -> bool:
    """Whether it holds numbers of which there are too many for classes."""
    return profile.numeric >= 0.98 and profile.distinct > 20


def profiles(names: Sequence[str], rows: Iterable[Sequence[str]]) -> list[Profile]:
    """What the columns of some rows are like; a row that is too short has empty values."""
    table = [list(row) for row in rows]
    return [
        _profile(name, number, [row[number] if number < len(row) else "" for row in table])
        for number, name in enumerate(names)
    ]


def _profile(name: str, number: int, values: Sequence[str]) -> Profile:
    filled = [value for value in map(str.strip, values) if value]
    counts: Counter[str] = Counter()
    for value in map(str.strip, values):
        if value in counts or len(counts) < _MANY:
            counts[value] += 1
    numbers = [number_in(value) for value in filled]
    whole = [number for number in numbers if number is not None]
    rising = len(whole) == len(filled) > 1 and all(a < b for a, b in pairwise(whole))
    size = max(1, len(filled))
    known = max(1, sum(not is_missing(value) for value in filled))
    return Profile(
        name,
        number,
        len(values),
        len(filled),
        counts,
        sum(len(value.split()) for value in filled) / size,
        sum(bool(_LETTER.search(value)) for value in filled) / size,
        len(whole) / known,
        rising,
    )


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row of a table names its columns: short words, and unlike what stands below them."""
    head = [cell.strip() for cell in rows[0]]
    filled = [cell for cell in head if cell]
    if len(rows) < 2 or not filled or not _may_be_names(filled):
        return False
    known = [bool(_KNOWN_NAMES.fullmatch(cell.lower())) for cell in filled]
    if sum(known) >= min(2, len(filled)):
        return True
    columns = profiles(head, rows[1:])
    measured = any(cell and column.numeric > 0.95 for cell, column in zip(head, columns, strict=True))
    tongues = sum(bool(language_called(cell)) and column.words > 2 for cell, column in zip(head, columns, strict=True))
    unlike = any(column.is_label and cell not in column.counts for cell, column in zip(head, columns, strict=True))
    return measured or tongues > 1 or (any(known) and unlike)


def _may_be_names(cells: Sequence[str]) -> bool:
    different = len(set(cells)) == len(cells)
    return different and all(_NAME.fullmatch(cell) and number_in(cell) is None for cell in cells)
