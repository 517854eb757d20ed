"""Labelled texts: one or two texts with a class or a number, and candidates of which some are correct; their readers
and how tables of them are detected.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, final

from heedful.data.detect.checks import ENCODING_CHECKS, EmptyTextCheck, LeakageCheck, RepeatCheck, count_faults
from heedful.data.detect.column_profiles import ColumnProfile
from heedful.data.detect.file_names import DatasetPart, get_suffix
from heedful.data.detect.format import DataCheck, DataFormat, DatasetExample, DetectedDataset, PartWriter
from heedful.data.detect.label_checks import ConstantNumberCheck, LabelDistributionCheck, LabelSpellingCheck
from heedful.data.detect.languages import guess_language
from heedful.data.detect.sniff import LABEL_FIRST, FileSniff
from heedful.data.detect.tables import DataTable, select_tables
from heedful.data.labels import is_missing_value, parse_number
from heedful.data.readers import ExampleReader, read_csv_rows, read_numbered_lines, read_records
from heedful.english_words import closest_match
from heedful.errors import DataError, RecipeError

ColumnKey = str | int
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
        path: the file, plain or compressed, UTF-8.
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
        """Build an example and parse its label, with errors at `location`; a label of None stays None."""
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
                    "needed; correct the line or choose other columns"
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
        path: the file, plain or compressed, UTF-8.
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
                raise DataError(f"{location}: {len(names)} candidates, but at least two are needed; correct the line")
            correct_index = record.get_int(self._label) if self._label in record else None
            if correct_index is not None and not 0 <= correct_index < len(names):
                raise DataError(
                    f"{location}: candidate {correct_index} is marked as right, but candidates are counted from 0 to "
                    f"{len(names) - 1}; correct the line"
                )
            shared = "" if self._text is None else record.get_text(self._text)
            texts = tuple((shared, name) if shared else (name,) for name in names)
            gold_answers = () if correct_index is None else (names[correct_index],)
            yield MultipleChoiceExample(
                texts, names, None if correct_index is None else (correct_index,), gold_answers, location
            )


def parse_label(label_text: str, *, names: Mapping[str, str] | None, number: bool, location: str) -> str | float:
    """Parse the label of an example: a number if `number` is True, else the class that `names` gives for it, or the
    label itself if `names` is None. Raise `DataError` with the location if it is empty, no number, or not among
    `names`.
    """
    text = label_text.strip()
    if not text:
        raise DataError(f"{location}: an empty label; correct the line")
    if number:
        value = parse_number(text)
        if value is None:
            raise DataError(
                f"{location}: the label {text!r} is not a number; correct the line or choose another column"
            )
        return value
    if names is None:
        return text
    if text not in names:
        known = ", ".join(map(repr, names))
        raise DataError(
            f"{location}: the label {text!r} is not one of {known}; correct the line or choose another column"
        )
    return names[text]


def _find_column(column: ColumnKey, header: Sequence[str], *, location: str, requested: Sequence[ColumnKey]) -> int:
    """Return the index of a column given by name or number; raise `DataError` at `location` if the header does not have
    the name. If it has none of all the requested columns, the message says that there may be no header.
    """
    if isinstance(column, int):
        return column
    if column in header:
        return header.index(column)
    present_names = ", ".join(map(_quote_name, header[:12])) or "none"
    suggestion = closest_match(column, header)
    if suggestion is None and header and not {*requested} & {*header}:
        advice = 'if the file has no header, set header = false and count columns from 0, as in text = "0", label = "1"'
        raise DataError(
            f"{location}: no column {column!r} (available: {present_names}); choose other columns, or {advice}"
        )
    remedy = f"did you mean {suggestion!r}?" if suggestion else "choose other columns"
    raise DataError(f"{location}: no column {column!r} (available: {present_names}); {remedy}")


def _quote_name(name: str) -> str:
    """Return a name in quotes, shortened if it is long."""
    return repr(name if len(name) <= _MAX_SHOWN_NAME else f"{name[:_MAX_SHOWN_NAME]}...")


_MIN_RATING_VALUES: Final = 3
"""Number of different integers from which on they may be a measure as well as classes."""


@final
@dataclass(frozen=True, kw_only=True)
class DetectedLabelledTable(DetectedDataset):
    """A table with one or two text columns and a label column.

    Attributes:
        tables: the table of each part.
        columns: the names of the one or two text columns.
        label: the name of the label column.
        has_number_labels: whether labels are numbers that measure something.
    """

    tables: Mapping[DatasetPart, DataTable]
    columns: Sequence[str]
    label: str
    has_number_labels: bool

    @property
    def format_description(self) -> str:
        """Description of the table."""
        return self._first_table.description

    @property
    def learning_description(self) -> str:
        """Description of the text columns and the label column."""
        texts = " and ".join(self._first_table.format_column(name) for name in self.columns)
        label_type = "a number" if self.has_number_labels else "a class"
        return (
            f"{texts} {'get' if len(self.columns) > 1 else 'gets'} {label_type}, from "
            f"{self._first_table.format_column(self.label)}"
        )

    @property
    def _first_table(self) -> DataTable:
        """The table of the first part."""
        return self.tables[self.present_parts[0]]

    @property
    def data_keys(self) -> Mapping[str, Any]:
        """The key `numbers`, if labels are numbers."""
        return {"numbers": True} if self.has_number_labels else {}

    def read_examples(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """Read one example for each row in the table of a part; raise `DataError` if a label should be a number and is
        not.
        """
        for row in self.tables[part].read_rows([*self.columns, self.label]):
            *texts, label = row.values
            label = "" if self.has_number_labels and is_missing_value(label) else label.strip()
            if self.has_number_labels and label and parse_number(label) is None:
                raise DataError(
                    f"{self.get_first_file(part)}:{row.line}: the label {label!r} is not a number; correct the line or "
                    "choose other columns with --columns"
                )
            split_keys = (texts[0],) if len(texts) == 1 else (texts[0], "\0".join(texts))
            yield DatasetExample(tuple(texts), (label,), row.line, row.raw, split_keys)

    def to_recipe_table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Return the recipe table of one part: its path in `files`, the kind, and the columns, by name if they have
        names.
        """
        first_table = self._first_table
        names = [
            name if first_table.has_header else str(first_table.get_column_index(name))
            for name in (*self.columns, self.label)
        ]
        kind = "jsonl" if first_table.is_json else "tsv" if first_table.delimiter == "\t" else "csv"
        default_kind = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}.get(get_suffix(Path(files[0])), "tsv")
        entries: dict[str, Any] = {"path": files[0]} | ({} if kind == default_kind else {"kind": kind})
        entries |= dict(zip(("text", "pair"), names[:-1], strict=False)) | {"label": names[-1]}
        return entries if first_table.has_header else {**entries, "header": False}

    def build_writer(self, folder: Path, part: DatasetPart, *, compress: bool) -> PartWriter:
        """Build the writer of the file of a part in `folder`, with the same kind of table; `compress` adds gzip."""
        return self._first_table.build_writer(folder, part, compress=compress)

    def build_checks(self) -> Sequence[DataCheck]:
        """Return the checks for labelled texts."""
        label_check = (
            ConstantNumberCheck(self.noun)
            if self.has_number_labels
            else LabelDistributionCheck(self.noun, label_nouns=("class", "classes"))
        )
        return [
            label_check,
            *([] if self.has_number_labels else [LabelSpellingCheck(self.noun)]),
            LeakageCheck(),
            *count_faults(self.noun, EmptyTextCheck(fatal=True)),
            RepeatCheck(
                self.noun,
                conflict="with two labels or more",
                remedy="a model can learn only one of them: decide which is right",
            ),
            *count_faults(self.noun, *ENCODING_CHECKS),
        ]


@final
@dataclass(frozen=True)
class LabelledTableFormat(DataFormat):
    """Format of tables with one or two columns of free text, and a column of few values or of numbers."""

    confidence: float = 0.9

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Yield a dataset with the text columns and the label column that `columns` names, or else the most probable
        ones; nothing if there are none. The confidence is lower if several columns may be the label.
        """
        tables = select_tables(files)
        if tables is None:
            return
        table = tables[next(iter(tables))]
        if columns:
            if len(columns) not in (2, 3):
                raise RecipeError(
                    f"--columns: {len(columns)} columns; give one or two texts and then the label, as in --columns "
                    "text label"
                )
            texts, label = [table.find_column(name) for name in columns[:-1]], table.find_column(columns[-1])
            confidence = 0.95 if label.is_label or label.is_number else 0.3
            yield self._build_dataset(tables, texts, label, confidence=confidence, notes=[])
            return
        texts = [column for column in table.columns if column.is_text]
        labels = [column for column in table.columns if column.is_label or (column.is_number and not column.is_label)]
        labels = [column for column in labels if column not in texts]
        if not labels:
            has_two_columns = len(table.columns) == 2
            labels = [
                column for column in table.columns if column.is_constant and (has_two_columns or column.has_label_name)
            ]
            texts = [column for column in texts if column not in labels]
        if not texts or not labels:
            return
        candidates = sorted(labels, key=lambda column: column.label_score, reverse=True)
        label, others = candidates[0], [column.name for column in candidates[1:]]
        text_columns = sorted(sorted(texts, key=lambda column: -column.mean_words)[:2], key=lambda column: column.index)
        confidence = self.confidence
        notes = []
        if others and not label.has_label_name:
            confidence = 0.6
            notes.append(f"{', '.join(map(repr, others[:4]))} may be labels as well")
        if len(texts) > 2:
            confidence = 0.6
            notes.append(
                f"{', '.join(repr(column.name) for column in texts if column not in text_columns)} are texts as well"
            )
        if len(text_columns) == 2 and _has_two_languages(table, text_columns):
            confidence = 0.5
        yield self._build_dataset(tables, text_columns, label, confidence=confidence, notes=notes)

    def _build_dataset(
        self,
        tables: Mapping[DatasetPart, DataTable],
        texts: Sequence[ColumnProfile],
        label: ColumnProfile,
        *,
        confidence: float,
        notes: list[str],
    ) -> DetectedDataset:
        """Build the detected dataset from the table of each part and the profiles of its text and label columns; add
        notes on ambiguous labels and excluded files. Ambiguous labels lower the confidence.
        """
        table = tables[next(iter(tables))]
        is_number_label = label.numeric_share >= 0.98 and not label.is_label and not label.is_constant
        num_numbers = sum(parse_number(value) is not None for value in label.value_counts)
        if label.is_label and label.numeric_share >= 0.98 and num_numbers >= _MIN_RATING_VALUES:
            confidence = min(confidence, 0.75)
            notes = [
                *notes,
                f"{label.name!r} holds {num_numbers} whole numbers, which are read as classes; if they measure "
                "something, add numbers = true below [data]",
            ]
        percentage = next((value for value in label.value_counts if value.endswith("%")), None)
        if is_number_label and percentage is not None:
            notes = [*notes, f"percentages are read as shares of 1: {percentage!r} is {parse_number(percentage):g}"]
        tables_with_labels = {part: item for part, item in tables.items() if _has_labels(item, label.name)}
        notes += [item.exclusion_note for item in tables.values() if item.exclusion_note]
        notes += [
            f"{item.path} has no labels and is left out"
            for part, item in tables.items()
            if part not in tables_with_labels
        ]
        return DetectedLabelledTable(
            files={part: [item.path] for part, item in tables_with_labels.items()},
            confidence=confidence,
            tables=tables_with_labels,
            columns=[item.name for item in texts],
            label=label.name,
            has_number_labels=is_number_label,
            label_noun="numbers" if is_number_label else "classes",
            text_nouns=["text"] if len(texts) == 1 else ["first text", "second text"],
            languages=[guess_language(table.get_sample_values(texts[0].name)[:1000])],
            notes=notes,
            conversion_reason=_explain_conversion(table),
        )


def _explain_conversion(table: DataTable) -> str:
    """Return why a table must be written with other separators; empty if it need not."""
    if table.delimiter == LABEL_FIRST:
        return "tables are read with commas or tabs between columns, so labels and texts are written as columns"
    if table.delimiter not in ("", "\t", ","):
        return "tables are read with commas or tabs between columns, so it is written with commas"
    return "its first line names the separator, so it is written without this line" if table.declares_delimiter else ""


def _has_labels(table: DataTable, label: str) -> bool:
    """Return whether a table has the label column, with values in it."""
    return (
        any(value.strip() for value in islice(table.get_sample_values(label), 1000))
        if _has_column(table, label)
        else False
    )


def _has_column(table: DataTable, name: str) -> bool:
    """Return whether a table has a column of this name."""
    return any(column.name == name for column in table.columns)


def _has_two_languages(table: DataTable, texts: Sequence[ColumnProfile]) -> bool:
    """Return whether the two text columns are in different languages."""
    first, second = (guess_language(table.get_sample_values(column.name)[:1000]) for column in texts)
    return bool(first and second and first != second)
