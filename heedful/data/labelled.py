"""Readers of labelled texts: one or two texts with a class or a number, and candidates of which some are correct."""

from __future__ import annotations

import csv
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import final

from heedful.data.number_parsing import parse_number
from heedful.data.readers import ExampleReader, read_lines, read_numbered_lines, read_records
from heedful.english_words import closest_match
from heedful.errors import DataError, RecipeError

ColumnKey = str | int
_SEPARATOR_LINE = re.compile(r'"?sep=(\\t|[^\w"])?"?[,;\t|]*', re.IGNORECASE)
_MAX_FIELD_CHARACTERS = 2**31 - 1
"""Characters of a field of CSV, at most: as many as the module takes on every platform."""
_MAX_SHOWN_NAME = 40
"""Characters of what may be the name of a column that messages show."""


@dataclass(frozen=True)
class LabelledExample:
    """One or two texts and their label.

    Attributes:
        texts: one text, or two that are judged together; any may be empty.
        label: the name of a class, or a number; None if it is not known.
        location: where the example stands (`file:line`).
        group: name of the group that the example is a part of, such as the options of one question; None if it stands
            alone.
    """

    texts: tuple[str, ...]
    label: str | float | None
    location: str
    group: str | None = None


@dataclass(frozen=True)
class MultipleChoiceExample:
    """Candidates of which one or more are correct.

    Attributes:
        candidates: the texts of each candidate, as in `LabelledExample.texts`.
        names: the name of each candidate.
        correct_indices: indices of the correct candidates; empty if none is correct, None if it is not known.
        gold_answers: the answers that count as correct when names are compared; they need not be among the names.
        location: where the example stands (`file:line`).
    """

    candidates: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]
    correct_indices: tuple[int, ...] | None
    gold_answers: tuple[str, ...]
    location: str


class LabelledReader(ExampleReader[LabelledExample]):
    """Base of readers of labelled texts from two or three columns or fields.

    Args:
        path: the file, plain or gzip, UTF-8.
        texts: the columns of the texts, by name or counted from 0.
        label: the column of the label; None if the file has none.
        names: the class of each label in the file, such as `{"0": "negative", "1": "positive"}`; any other label is an
            error. If None, every label is taken as it is.
        number: whether labels are numbers instead of classes.
        header: whether the first row of a table names the columns; by default it does if a column is given by name.
            Fields of JSON always have names.
    """

    def __init__(
        self,
        path: Path,
        *,
        texts: Sequence[ColumnKey],
        label: ColumnKey | None,
        names: Mapping[str, str] | None = None,
        number: bool = False,
        header: bool | None = None,
    ) -> None:
        super().__init__(path)
        columns = [*texts, *([] if label is None else [label])]
        has_names = any(isinstance(column, str) for column in columns)
        if not texts:
            raise RecipeError(f"{path}: no text column is named; name one or two")
        for column in columns:
            if isinstance(column, int) and column < 0:
                raise RecipeError(f"{path}: columns are counted from 0, so {column} is not a column")
        if header is False and has_names:
            raise RecipeError(f"{path}: columns without a header cannot be named; count them from 0")
        self._header = has_names if header is None else header
        self._columns = columns
        self._texts = tuple(texts)
        self._label = label
        self._names = names
        self._number = number

    def _build_example(self, texts: Sequence[str], label_text: str | None, *, location: str) -> LabelledExample:
        """Build an example and parse its label; a label of None stays None."""
        if label_text is None:
            return LabelledExample(tuple(texts), None, location)
        return LabelledExample(
            tuple(texts), parse_label(label_text, names=self._names, number=self._number, location=location), location
        )


class _TableReader(LabelledReader):
    """Base of readers of labelled tables."""

    @abstractmethod
    def _iter_rows(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the location and the fields of every row."""

    def __iter__(self) -> Iterator[LabelledExample]:
        rows = self._iter_rows()
        location, head = next(rows, (str(self.paths[0]), [])) if self._header else ("", [])
        positions = [_find_column(column, head, location=location, requested=self._columns) for column in self._columns]
        for location, fields in rows:
            if len(fields) <= max(positions):
                raise DataError(
                    f"{location}: {len(fields)} column{'s' * (len(fields) != 1)} where {max(positions) + 1} are "
                    "needed; "
                    "mend the line or choose other columns"
                )
            values = [fields[position] for position in positions]
            label = None if self._label is None else values.pop()
            yield self._build_example(values, label, location=location)


@final
class LabelledTsv(_TableReader):
    """Labelled texts in columns between tabs, without quoting, as in GLUE; lines of white space are skipped.

    The first line is a header if a column is given by name, or if `header` says so.
    """

    def _iter_rows(self) -> Iterator[tuple[str, list[str]]]:
        for _, location, line in read_numbered_lines(self.paths[0]):
            yield location, line.split("\t")


@final
class LabelledCsv(_TableReader):
    """Labelled texts in columns between commas; fields in double quotes may hold commas, line ends and doubled quotes.

    The first row is a header if a column is given by name, or if `header` says so. Empty lines are skipped.
    """

    def _iter_rows(self) -> Iterator[tuple[str, list[str]]]:
        return read_csv_rows(self.paths[0])


@final
class LabelledJsonl(LabelledReader):
    """Labelled texts in fields of the JSON object on each line; the label may be a text, a number or a boolean.

    A missing or null label becomes None: some benchmarks leave labels out of their test files.
    """

    def __iter__(self) -> Iterator[LabelledExample]:
        for _, record in read_records(self.paths[0]):
            has_label = self._label is not None and str(self._label) in record
            label = record.get_scalar(str(self._label)) if has_label else None
            yield self._build_example(
                [record.get_text(str(name)) for name in self._texts], label, location=record.location
            )


@final
class ChoicesJsonl(ExampleReader[MultipleChoiceExample]):
    """Multiple-choice examples: on each line a JSON object with a list of candidates and the index of the correct one,
    from 0.

    If the index is missing or null, the correct candidate is not known.

    Args:
        path: the file, plain or gzip, UTF-8.
        candidates: name of the field with the list.
        label: name of the field with the index.
        text: name of the field with the text that all candidates share, which is read before each; if it is empty or
            None,
            each candidate is read alone.
    """

    def __init__(self, path: Path, *, candidates: str, label: str, text: str | None = None) -> None:
        super().__init__(path)
        self._candidates = candidates
        self._label = label
        self._text = text

    def __iter__(self) -> Iterator[MultipleChoiceExample]:
        """Iterate over the examples; raise `DataError` if one has fewer than two candidates, or an index out of
        range.
        """
        for _, record in read_records(self.paths[0]):
            location, names = record.location, record.get_texts(self._candidates)
            if len(names) < 2:
                raise DataError(f"{location}: {len(names)} candidates, but at least two are needed; mend the line")
            correct_index = record.get_int(self._label) if self._label in record else None
            if correct_index is not None and not 0 <= correct_index < len(names):
                raise DataError(
                    f"{location}: candidate {correct_index} is marked as right, but candidates are counted from 0 to "
                    f"{len(names) - 1}; mend "
                    "the line"
                )
            shared = "" if self._text is None else record.get_text(self._text)
            texts = tuple((shared, name) if shared else (name,) for name in names)
            gold_answers = () if correct_index is None else (names[correct_index],)
            yield MultipleChoiceExample(
                texts, names, None if correct_index is None else (correct_index,), gold_answers, location
            )


def parse_label(label_text: str, *, names: Mapping[str, str] | None, number: bool, location: str) -> str | float:
    """Parse the label of an example; raise `DataError` if it is empty, not among `names`, or should be a number and
    is not.
    """
    text = label_text.strip()
    if not text:
        raise DataError(f"{location}: an empty label; mend the line")
    if number:
        value = parse_number(text)
        if value is None:
            raise DataError(f"{location}: the label {text!r} is not a number; mend the line or choose another column")
        return value
    if names is None:
        return text
    if text not in names:
        known = ", ".join(map(repr, names))
        raise DataError(f"{location}: the label {text!r} is not one of {known}; mend the line or choose another column")
    return names[text]


def parse_separator_line(line: str) -> str | None:
    """Return the column separator from a first line such as `sep=;`, which Excel writes; None for any other line.

    The result is empty if the line has this form and names no separator.
    """
    match = _SEPARATOR_LINE.fullmatch(line)
    return None if match is None else (match[1] or "").replace("\\t", "\t")


def read_csv_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Read the rows of a CSV file (RFC 4180) with the location where each begins; raise `DataError` if quotes do not
    match.

    Fields may be of any length. A first line such as `sep=;` sets the separator and is not a row.
    """
    return ((f"{path}:{start_line}", row) for start_line, row in read_quoted_rows(path))


def read_quoted_rows(path: Path, *, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Read the rows of a table with quoted fields, with the line number where each begins; raise `DataError` if
    quotes do not match.
    """
    csv.field_size_limit(_MAX_FIELD_CHARACTERS)  # of the whole process; 131,072 characters by default
    lines = read_lines(path)
    first = next(lines, "")
    declared_delimiter = parse_separator_line(first)
    num_skipped = int(declared_delimiter is not None)
    table_lines = lines if num_skipped else chain([first], lines)
    rows = csv.reader((f"{line}\n" for line in table_lines), delimiter=declared_delimiter or delimiter, strict=True)
    while True:
        start_line = rows.line_num + 1 + num_skipped
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise DataError(f"{path}:{start_line}: not valid CSV ({error}); mend the quotes of this row") from None
        if row is None:
            return
        if row:
            yield start_line, row


def _find_column(column: ColumnKey, header: Sequence[str], *, location: str, requested: Sequence[ColumnKey]) -> int:
    """Return the index of a column given by name or number; raise `DataError` if the header does not have the name."""
    if isinstance(column, int):
        return column
    if column in header:
        return header.index(column)
    present_names = ", ".join(map(_quote_name, header[:12])) or "none"
    suggestion = closest_match(column, header)
    if suggestion is None and header and not {*requested} & {*header}:
        advice = 'if the file has no header, set header = false and count columns from 0, as in text = "0", label = "1"'
        raise DataError(f"{location}: no column {column!r} (there: {present_names}); choose other columns, or {advice}")
    remedy = f"did you mean {suggestion!r}?" if suggestion else "choose other columns"
    raise DataError(f"{location}: no column {column!r} (there: {present_names}); {remedy}")


def _quote_name(name: str) -> str:
    """Return a name in quotes, shortened if it is long."""
    return repr(name if len(name) <= _MAX_SHOWN_NAME else f"{name[:_MAX_SHOWN_NAME]}...")
