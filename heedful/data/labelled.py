"""One or two texts and what is to be said of them: a class or a number; and candidates of which some are right."""

from __future__ import annotations

import csv
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import final

from heedful.data.readers import Reader, placed_lines, read_lines, records
from heedful.data.written_numbers import number_in
from heedful.errors import DataError, RecipeError
from heedful.words import near

Column = str | int
_SEPARATOR = re.compile(r'"?sep=(\\t|[^\w"])?"?[,;\t|]*', re.IGNORECASE)
_LONGEST_FIELD = 2**31 - 1
"""Characters of a field of CSV, at most: as many as the module takes on every platform."""
_NAME = 40
"""Characters of what may be the name of a column that messages show."""


@dataclass(frozen=True)
class Labelled:
    """Texts and their label.

    Attributes:
        texts: one text, or two that are judged together; any may be empty.
        label: the name of a class, or a number; None where it is not known.
        place: where it stands (`file:line`).
        group: what it is one of several parts of, such as the options of a question; None where it stands alone.
    """

    texts: tuple[str, ...]
    label: str | float | None
    place: str
    group: str | None = None


@dataclass(frozen=True)
class Choice:
    """Candidates of which one or more are right.

    Attributes:
        candidates: the texts of each candidate, as in `Labelled.texts`.
        names: what each candidate is called.
        right: the numbers of those that are right; empty where none of them is, None where it is not known.
        golds: the answers that count as right when names are compared; they need not be among the names.
        place: where it stands (`file:line`).
    """

    candidates: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]
    right: tuple[int, ...] | None
    golds: tuple[str, ...]
    place: str


class LabelledReader(Reader[Labelled]):
    """Labelled texts from two or three columns or fields.

    Args:
        path: plain or gzip, UTF-8.
        texts: the columns of the texts, by name or counted from 0.
        label: the column of the label; None where the file has none.
        names: what each label that may be written means, such as `{"0": "negative", "1": "positive"}`; what is not
            among them is an error. Every label is taken as it stands if None.
        number: whether labels are numbers instead of classes.
        header: whether the first row of a table names the columns; it does where a column is named, unless given.
            Fields of JSON have names in any case.
    """

    def __init__(
        self,
        path: Path,
        *,
        texts: Sequence[Column],
        label: Column | None,
        names: Mapping[str, str] | None = None,
        number: bool = False,
        header: bool | None = None,
    ) -> None:
        super().__init__(path)
        columns = [*texts, *([] if label is None else [label])]
        named = any(isinstance(column, str) for column in columns)
        if not texts:
            raise RecipeError(f"{path}: no column of a text is named; name one or two")
        for column in columns:
            if isinstance(column, int) and column < 0:
                raise RecipeError(f"{path}: columns are counted from 0, so {column} is none")
        if header is False and named:
            raise RecipeError(f"{path}: columns without a header cannot be named; count them from 0")
        self._header = named if header is None else header
        self._columns = columns
        self._texts = tuple(texts)
        self._label = label
        self._names = names
        self._number = number

    def _labelled(self, texts: Sequence[str], written: str | None, *, place: str) -> Labelled:
        if written is None:
            return Labelled(tuple(texts), None, place)
        return Labelled(tuple(texts), read_label(written, names=self._names, number=self._number, place=place), place)


class _Table(LabelledReader):
    """Rows of columns."""

    @abstractmethod
    def _lines(self) -> Iterator[tuple[str, list[str]]]:
        """Place and fields of every row."""

    def __iter__(self) -> Iterator[Labelled]:
        rows = self._lines()
        place, head = next(rows, (str(self.paths[0]), [])) if self._header else ("", [])
        wanted = [_position(column, head, place=place, named=self._columns) for column in self._columns]
        for place, fields in rows:
            if len(fields) <= max(wanted):
                raise DataError(
                    f"{place}: {len(fields)} column{'s' * (len(fields) != 1)} where {max(wanted) + 1} are needed; "
                    "mend the line or choose other columns"
                )
            values = [fields[position] for position in wanted]
            label = None if self._label is None else values.pop()
            yield self._labelled(values, label, place=place)


@final
class LabelledTsv(_Table):
    """Columns between tabs, without any quoting, as GLUE has them; lines of nothing but white space are left out.

    The first line is a header where a column is named, or `header` says so.
    """

    def _lines(self) -> Iterator[tuple[str, list[str]]]:
        for _, place, line in placed_lines(self.paths[0]):
            yield place, line.split("\t")


@final
class LabelledCsv(_Table):
    """Columns between commas; fields in double quotes may hold commas, line ends and doubled quotes.

    The first row is a header where a column is named, or `header` says so. Empty lines are left out.
    """

    def _lines(self) -> Iterator[tuple[str, list[str]]]:
        return csv_rows(self.paths[0])


@final
class LabelledJsonl(LabelledReader):
    """Fields of the JSON object on each line; the label may be text, a number or a truth value.

    Where a label is missing or null it is None: some benchmarks leave it out of their test files.
    """

    def __iter__(self) -> Iterator[Labelled]:
        for _, record in records(self.paths[0]):
            known = self._label is not None and str(self._label) in record
            label = record.scalar(str(self._label)) if known else None
            yield self._labelled([record.text(str(name)) for name in self._texts], label, place=record.place)


@final
class ChoicesJsonl(Reader[Choice]):
    """On each line a JSON object with a list of candidates, and the number of the right one, from 0.

    Where that is missing or null it is not known.

    Args:
        path: plain or gzip, UTF-8.
        candidates: the field of the list.
        label: the field of the number.
        text: the field of what all candidates share, which is read before each; where it is empty, or None, each is
            read alone.
    """

    def __init__(self, path: Path, *, candidates: str, label: str, text: str | None = None) -> None:
        super().__init__(path)
        self._candidates = candidates
        self._label = label
        self._text = text

    def __iter__(self) -> Iterator[Choice]:
        """`DataError` where there are fewer than two candidates, or the right one is none of them."""
        for _, record in records(self.paths[0]):
            place, names = record.place, record.texts(self._candidates)
            if len(names) < 2:
                raise DataError(
                    f"{place}: {len(names)} candidates, and there must be two to choose from; mend the line"
                )
            right = record.integer(self._label) if self._label in record else None
            if right is not None and not 0 <= right < len(names):
                raise DataError(
                    f"{place}: candidate {right} is said to be right, and they count from 0 to {len(names) - 1}; mend "
                    "the line"
                )
            shared = "" if self._text is None else record.text(self._text)
            texts = tuple((shared, name) if shared else (name,) for name in names)
            golds = () if right is None else (names[right],)
            yield Choice(texts, names, None if right is None else (right,), golds, place)


def read_label(written: str, *, names: Mapping[str, str] | None, number: bool, place: str) -> str | float:
    """What a label that stands in a file means; `DataError` where it is empty, not among `names`, or no number."""
    text = written.strip()
    if not text:
        raise DataError(f"{place}: an empty label; mend the line")
    if number:
        value = number_in(text)
        if value is None:
            raise DataError(f"{place}: the label {text!r} is no number; mend the line or choose another column")
        return value
    if names is None:
        return text
    if text not in names:
        known = ", ".join(map(repr, names))
        raise DataError(f"{place}: the label {text!r} is none of {known}; mend the line or choose another column")
    return names[text]


def declared_separator(line: str) -> str | None:
    """What stands between columns by a first line such as `sep=;`, which Excel writes; None of any other line.

    Empty where the line is such a one and names no mark.
    """
    found = _SEPARATOR.fullmatch(line)
    return None if found is None else (found[1] or "").replace("\\t", "\t")


def csv_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The rows of a CSV file (RFC 4180), each with the place where it begins; `DataError` where quotes do not match.

    Fields may be of any length. A first line such as `sep=;` says what stands between columns and is no row.
    """
    return ((f"{path}:{begin}", row) for begin, row in quoted_rows(path))


def quoted_rows(path: Path, *, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """The same, with another mark between columns perhaps, and the number of the line alone."""
    csv.field_size_limit(_LONGEST_FIELD)  # of the whole process; 131,072 characters unless somebody says otherwise
    lines = read_lines(path)
    first = next(lines, "")
    declared = declared_separator(first)
    skipped = int(declared is not None)
    kept = lines if skipped else chain([first], lines)
    rows = csv.reader((f"{line}\n" for line in kept), delimiter=declared or delimiter, strict=True)
    while True:
        begin = rows.line_num + 1 + skipped
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise DataError(f"{path}:{begin}: not valid CSV ({error}); mend the quotes of this row") from None
        if row is None:
            return
        if row:
            yield begin, row


def _position(column: Column, head: Sequence[str], *, place: str, named: Sequence[Column]) -> int:
    if isinstance(column, int):
        return column
    if column in head:
        return head.index(column)
    present = ", ".join(map(_quoted, head[:12])) or "none"
    meant = near(column, head)
    if meant is None and head and not {*named} & {*head}:
        counted = (
            'if the file has no header, set header = false and count columns from 0, as in text = "0", label = "1"'
        )
        raise DataError(f"{place}: no column {column!r} (there: {present}); choose other columns, or {counted}")
    remedy = f"did you mean {meant!r}?" if meant else "choose other columns"
    raise DataError(f"{place}: no column {column!r} (there: {present}); {remedy}")


def _quoted(text: str) -> str:
    """A name, or the beginning of what is too long for one."""
    return repr(text if len(text) <= _NAME else f"{text[:_NAME]}...")
