"""Detect tables of texts with a class or a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, final

from heedful.data.detect.checks import (
    ENCODING_CHECKS,
    DataCheck,
    EmptyTextCheck,
    LeakageCheck,
    RepeatCheck,
    count_faults,
)
from heedful.data.detect.column_profiles import ColumnProfile
from heedful.data.detect.file_names import DatasetPart, get_suffix
from heedful.data.detect.format import DataFormat, DatasetExample, DetectedDataset
from heedful.data.detect.label_checks import ConstantNumberCheck, LabelDistributionCheck, LabelSpellingCheck
from heedful.data.detect.languages import guess_language
from heedful.data.detect.part_writers import PartWriter
from heedful.data.detect.sniff import LABEL_FIRST, FileSniff
from heedful.data.detect.tables import DataTable, select_tables
from heedful.data.number_parsing import is_missing_value, parse_number
from heedful.errors import DataError, RecipeError

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
        """Read one example for each row."""
        for row in self.tables[part].read_rows([*self.columns, self.label]):
            *texts, label = row.values
            label = "" if self.has_number_labels and is_missing_value(label) else label.strip()
            if self.has_number_labels and label and parse_number(label) is None:
                raise DataError(
                    f"{self.get_first_file(part)}:{row.line}: the label {label!r} is not a number; mend the line or "
                    "choose other columns with --columns"
                )
            split_keys = (texts[0],) if len(texts) == 1 else (texts[0], "\0".join(texts))
            yield DatasetExample(tuple(texts), (label,), row.line, row.raw, split_keys)

    def to_recipe_table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Return the path, the kind and the columns, by name if they have names."""
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
        """Build a writer of the same kind of table."""
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
        """Detect the text columns and the most probable label column; the confidence is lower if several columns
        may be the label.
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
        """Build the detected dataset, with notes on ambiguous labels and excluded files."""
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
    """Return why a table must be written in another form; empty if it need not."""
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
