"""Statistics of each column of a table, or of each field of JSON objects, to find out what it holds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from heedful.data.detect.languages import parse_column_language
from heedful.data.labels import is_missing_value, parse_number
from heedful.errors import DataError

_MAX_COLUMNS: Final = 16_384
_MAX_DISTINCT: Final = 2000
"""Largest number of different values of a column that are counted."""
_MAX_LABELS: Final = 200
"""Largest number of different values of a label column."""
_LABEL_NAMES: Final = re.compile(
    r"labels?|class(es)?|category|categories|tag|target|sentiment|polarity|intent|topic|gold(_label)?|quality|y|"
    r"rating|stars|score|similarity|is_duplicate|answer|verdict|emotion"
)
_ID_NAMES: Final = re.compile(
    r"#?\s*(?:\d+\s*)?(id|idx|index|nr|no|num|number|guid|uuid|url|pairid|promptid)|.*[ _-]id|.*_url"
)
_LETTER: Final = re.compile(r"[^\W\d_]")
_NAME: Final = re.compile(r"#?\w[\w #.()/-]{0,39}")
_KNOWN_NAMES: Final = re.compile(
    rf"(?:{_LABEL_NAMES.pattern}|{_ID_NAMES.pattern}|text\d?|sentence_?\d?|source|src|target|tgt|title|description|review|"
    r"question\d?|context|answers?|premise|hypothesis|content|body|message|comment|words?|#\d string|lang\w*)"
)


@dataclass(frozen=True)
class ColumnProfile:
    """Statistics of the values of one column.

    Attributes:
        name: name of the column, or its index, counted from 0.
        index: index of the column.
        num_rows: number of values that were read.
        num_filled: number of values that are not empty.
        value_counts: frequency of each value; incomplete for a column with very many different values.
        mean_words: mean number of words of a value.
        letter_share: share of values with a letter.
        numeric_share: share of values that are numbers, among those that are not markers of a missing value.
        is_increasing: whether all values are numbers, each larger than the one before.
    """

    name: str
    index: int
    num_rows: int
    num_filled: int
    value_counts: Mapping[str, int]
    mean_words: float
    letter_share: float
    numeric_share: float
    is_increasing: bool

    @property
    def num_distinct(self) -> int:
        """Number of different values; 2,000 if there are more."""
        return len(self.value_counts)

    @property
    def distinct_share(self) -> float:
        """Share of different values among all values."""
        return self.num_distinct / max(1, min(self.num_filled, _MAX_DISTINCT))

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers that measure something."""
        return self.numeric_share >= 0.98 and not self.is_id

    @property
    def is_id(self) -> bool:
        """Whether the column only identifies the row."""
        if _ID_NAMES.fullmatch(self.name.lower()):
            return True
        is_unique_word = self.mean_words <= 1.01 and self.distinct_share > 0.95 and self.num_rows >= 20
        has_digits = any(map(str.isdigit, "".join(list(self.value_counts)[:50])))
        return is_unique_word and (self.is_increasing or (has_digits and not self.numeric_share))

    @property
    def is_label(self) -> bool:
        """Whether the column has so few different values that they may be classes."""
        has_few_values = 2 <= self.num_distinct <= min(_MAX_LABELS, max(2, self.num_filled // 3))
        numbers = (parse_number(value) for value in self.value_counts)
        is_discrete = self.numeric_share < 0.98 or all(number is None or number.is_integer() for number in numbers)
        min_filled = 0.5 if self.has_label_name else 0.9
        return (
            has_few_values
            and is_discrete
            and self.mean_words <= 6
            and self.num_filled >= min_filled * self.num_rows
            and not _has_many_numbers(self)
        )

    @property
    def is_constant(self) -> bool:
        """Whether the column has the same short value in all rows."""
        return (
            self.num_filled >= 0.9 * self.num_rows
            and self.num_rows > 1
            and len({*self.value_counts} - {""}) == 1
            and self.mean_words <= 6
        )

    @property
    def is_text(self) -> bool:
        """Whether the column holds free text."""
        if self.is_id or self.numeric_share > 0.5 or self.letter_share < 0.6 or self.num_filled < 0.5 * self.num_rows:
            return False
        return not (self.is_label or self.is_constant) or self.mean_words > 3

    @property
    def has_label_name(self) -> bool:
        """Whether the column's name is a usual name of a label."""
        return bool(_LABEL_NAMES.fullmatch(self.name.lower().strip()))

    @property
    def label_score(self) -> tuple[bool, float]:
        """Sort key of label candidates: the column most likely to be the label has the largest."""
        return self.has_label_name, -self.num_distinct / max(1, self.num_rows) - (0.5 if "" in self.value_counts else 0)


def _has_many_numbers(profile: ColumnProfile) -> bool:
    """Return whether a column holds too many different numbers to be classes."""
    return profile.numeric_share >= 0.98 and profile.num_distinct > 20


class TooManyColumnsError(DataError):
    """Raised for a table with more columns than are read; the caller adds the name of the file."""


def build_profiles(names: Sequence[str], rows: Iterable[Sequence[str]]) -> list[ColumnProfile]:
    """Compute the profile of each column of a table, given the names of the columns and the rows; missing values in
    short rows are empty.

    Raises:
        TooManyColumnsError: see `profile_columns`.
    """
    columns: list[list[str]] = [[] for _ in names]
    num_rows = 0
    for row in rows:
        num_rows += 1
        for column, value in zip(columns, row, strict=False):
            column.append(value)
    return profile_columns(names, columns, num_rows=num_rows)


def profile_columns(names: Sequence[str], columns: Iterable[Sequence[str]], *, num_rows: int) -> list[ColumnProfile]:
    """Compute the profile of each column of a table. Its time depends on the number of values, and not on that of the
    cells, because a hostile file may have one long row and many short ones.

    Args:
        names: of the columns.
        columns: the values of each column; rows that are too short for a column have none.
        num_rows: rows of the table.

    Raises:
        TooManyColumnsError: the table has more columns than a spreadsheet can hold.
    """
    if len(names) > _MAX_COLUMNS:
        raise TooManyColumnsError(f"has {len(names):,} columns, and at most {_MAX_COLUMNS:,} are read")
    return [
        _build_profile(name, index, values, num_rows=num_rows)
        for index, (name, values) in enumerate(zip(names, columns, strict=True))
    ]


def _build_profile(name: str, index: int, values: Sequence[str], *, num_rows: int) -> ColumnProfile:
    """Compute the profile of the column with this name and index from the values of all rows that are long enough."""
    stripped = [value.strip() for value in values]
    filled = [value for value in stripped if value]
    counts: Counter[str] = Counter()
    for value in stripped:
        if value in counts or len(counts) < _MAX_DISTINCT:
            counts[value] += 1
    if len(stripped) < num_rows and ("" in counts or len(counts) < _MAX_DISTINCT):
        counts[""] += num_rows - len(stripped)
    numbers = [parse_number(value) for value in filled]
    parsed = [number for number in numbers if number is not None]
    is_increasing = len(parsed) == len(filled) > 1 and all(a < b for a, b in pairwise(parsed))
    size = max(1, len(filled))
    num_known = max(1, sum(not is_missing_value(value) for value in filled))
    return ColumnProfile(
        name,
        index,
        num_rows,
        len(filled),
        counts,
        sum(len(value.split()) for value in filled) / size,
        sum(bool(_LETTER.search(value)) for value in filled) / size,
        len(parsed) / num_known,
        is_increasing,
    )


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row of a table names its columns: short words, unlike the values below them."""
    header = [cell.strip() for cell in rows[0]]
    filled = [cell for cell in header if cell]
    if len(rows) < 2 or not filled or not _is_name_row(filled):
        return False
    is_known_name = [bool(_KNOWN_NAMES.fullmatch(cell.lower())) for cell in filled]
    if sum(is_known_name) >= min(2, len(filled)):
        return True
    columns = build_profiles(header, rows[1:])
    above_numbers = any(cell and column.numeric_share > 0.95 for cell, column in zip(header, columns, strict=True))
    num_languages = sum(
        bool(parse_column_language(cell)) and column.mean_words > 2
        for cell, column in zip(header, columns, strict=True)
    )
    above_labels = any(
        column.is_label and cell not in column.value_counts for cell, column in zip(header, columns, strict=True)
    )
    return above_numbers or num_languages > 1 or (any(is_known_name) and above_labels)


def _is_name_row(cells: Sequence[str]) -> bool:
    """Return whether all cells are different and look like names."""
    is_unique = len(set(cells)) == len(cells)
    return is_unique and all(_NAME.fullmatch(cell) and parse_number(cell) is None for cell in cells)
