"""Detect parallel text: two files whose lines correspond, or two columns of a table."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from math import log
from pathlib import Path
from typing import Any, Final, Self, final
from zlib import crc32

from heedful.data.detect.checks import (
    ENCODING_CHECKS,
    EmptyTextCheck,
    LeakageCheck,
    RepeatCheck,
    count_faults,
    estimate_tokens,
    format_example,
)
from heedful.data.detect.file_names import DatasetPart
from heedful.data.detect.format import (
    DataCheck,
    DataFormat,
    DatasetExample,
    DetectedDataset,
    JsonlPartWriter,
    LinePartWriter,
    PartWriter,
    group_by_part,
)
from heedful.data.detect.languages import LanguageInfo, guess_language, parse_column_language
from heedful.data.detect.pair_checks import AlignmentCheck, CopyCheck, LanguageCheck, LengthRatioCheck
from heedful.data.detect.sniff import FileSniff, PlainLinesShape
from heedful.data.detect.tables import DataTable, select_tables
from heedful.data.readers import read_lines
from heedful.errors import DataError, RecipeError

_MAX_TEXT_COLUMNS: Final = 100
"""Largest number of columns of a table that are compared with each other."""
_NUM_SAMPLE_LINES: Final = 1000
"""Number of lines from which a language is guessed."""


@dataclass(frozen=True, kw_only=True)
class DetectedParallelText(DetectedDataset):
    """Base of datasets of parallel text.

    Abstract: each format defines how its sides are swapped.
    """

    noun: str = "pairs"
    joint_texts: bool = False
    is_parallel: bool = True
    min_core_minutes: float = 14.0  # the tokens of TranslationTask.useful_amount, by the smaller Transformers
    text_nouns: Sequence[str] = ("source", "target")

    @property
    def direction(self) -> tuple[str, str] | None:
        """Tags of the source and the target language; None if one is not known.

        Two varieties of one language, such as `pt-BR` and `pt-PT`, are a direction; the same tag twice is not.
        """
        tags = [language.tag for language in self.languages]
        return (tags[0], tags[1]) if len(tags) == 2 and all(tags) and tags[0] != tags[1] else None

    @property
    def direction_note(self) -> str:
        """Names of both languages in brackets; empty if one is not known."""
        first, second = self.languages
        return f" ({first} to {second})" if first and second else ""

    def get_side_names(self, part: DatasetPart) -> Sequence[str]:
        """Return what both sides of a part are called in messages."""
        return [str(path) for path in self.files[part]]

    @abstractmethod
    def swap_sides(self) -> Self:
        """Return the dataset with source and target swapped."""

    def build_checks(self) -> Sequence[DataCheck]:
        """Return the checks for parallel text."""
        sides = {part: self.get_side_names(part) for part in self.present_parts}
        conflict = "with more than one target, as when several people translated them"
        remedy = "fine if all of them are right; a model learns their mean"
        return [
            AlignmentCheck(sides),
            LanguageCheck(self.languages, sides),
            LeakageCheck(),
            *count_faults(self.noun, EmptyTextCheck()),
            RepeatCheck(self.noun, input_noun="sources", conflict=conflict, remedy=remedy, min_share=0.01),
            *count_faults(self.noun, CopyCheck(), LengthRatioCheck(), *ENCODING_CHECKS),
        ]


@final
@dataclass(frozen=True, kw_only=True)
class DetectedLineFiles(DetectedParallelText):
    """Parallel text in two line-aligned files for each part.

    Attributes:
        has_documents: whether lines with an empty source end documents, each of which stays in one part.
    """

    has_documents: bool = False

    @property
    def format_description(self) -> str:
        """Description of the format."""
        return "two files whose lines belong together"

    @property
    def learning_description(self) -> str:
        """Description of source and target; the first file is the source."""
        source, target = self.files[self.present_parts[0]]
        return f"a line of {source.name} becomes the same line of {target.name}{self.direction_note}"

    def keep_documents_whole(self, *, blank_lines: bool, column: str | None) -> Self:
        """Return the dataset with documents that end at empty lines; raise `RecipeError` unless `blank_lines`, since
        two files have no columns.
        """
        if not blank_lines:
            raise RecipeError("--document-column: is for tables; in two files empty lines end documents: --documents")
        return replace(self, has_documents=True)

    @property
    def document_options(self) -> Sequence[str]:
        """The option for empty lines, if they end documents."""
        return ["--documents"] if self.has_documents else []

    def read_examples(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """Read one example for each line in the two files of a part."""
        lines = self._read_line_pairs(part)
        return _group_by_document(lines) if self.has_documents else lines

    def is_document_end(self, example: DatasetExample) -> bool:
        """Return whether both lines are empty, which ends a document."""
        return self.has_documents and not any(map(str.strip, example.texts))

    def _read_line_pairs(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """Read the line pairs of a part; raise `DataError` if the files have different numbers of lines."""
        source, target = self.files[part]
        for line_number, (source_line, target_line) in enumerate(
            zip_longest(read_lines(source), read_lines(target)), 1
        ):
            if source_line is None or target_line is None:
                raise DataError(describe_misalignment(source, target))
            yield DatasetExample(
                (source_line, target_line), (), line_number, (source_line, target_line), (source_line,)
            )

    def to_recipe_table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Return the paths of the two files."""
        return {"source": files[0], "target": files[1]}

    def swap_sides(self) -> Self:
        """Return the dataset with the files in the other order."""
        files = {part: pair[::-1] for part, pair in self.files.items()}
        return replace(self, files=files, languages=self.languages[::-1])

    def build_writer(self, folder: Path, part: DatasetPart, *, compress: bool) -> PartWriter:
        """Build the writer of the two files of a part in `folder`, named after their languages if these are known;
        `compress` adds gzip.
        """
        codes = [language.code for language in self.languages]
        endings = codes if all(codes) and codes[0] != codes[1] else ["source", "target"]
        return LinePartWriter(*(folder / f"{part}.{ending}{'.gz' * compress}" for ending in endings))


@dataclass(frozen=True, kw_only=True)
class DetectedColumns(DetectedParallelText):
    """Base of parallel text in two columns.

    Abstract: each format defines how columns are read.

    Attributes:
        columns: the source column and the target column.
        document_column: name of the column with the document of a row; each document stays in one part.
    """

    columns: tuple[str, str]
    document_column: str | None = None

    def find_document_column(self, name: str) -> str:
        """Return the name of a document column, as given by the user; raise `RecipeError` if there is none."""
        return name

    def keep_documents_whole(self, *, blank_lines: bool, column: str | None) -> Self:
        """Return the dataset with documents that `column` names; raise `RecipeError` if it is None or contains the text
        to translate.
        """
        if column is None:
            raise RecipeError("--documents: is for two files; for a table, give the column: --document-column NAME")
        document_column = self.find_document_column(column)
        if document_column in self.columns:
            raise RecipeError(
                f"--document-column: {document_column} contains the text to translate; give another column"
            )
        return replace(self, document_column=document_column)

    @property
    def document_options(self) -> Sequence[str]:
        """The option for the document column of written parts, if there is one."""
        return [] if self.document_column is None else ["--document-column", self.document_column]

    def swap_sides(self) -> Self:
        """Return the dataset with the columns in the other order."""
        return replace(self, columns=self.columns[::-1], languages=self.languages[::-1])


@final
@dataclass(frozen=True, kw_only=True)
class DetectedColumnPair(DetectedColumns):
    """Parallel text in two columns of a table.

    Attributes:
        tables: the table of each part.
        as_json: whether the parts are written as JSON lines.
    """

    tables: Mapping[DatasetPart, DataTable]
    as_json: bool = False

    @property
    def document_options(self) -> Sequence[str]:
        """The option for the document column of written parts, whose columns may have other names."""
        if self.document_column is None:
            return []
        table = self.tables[self.present_parts[0]]
        index = str(table.get_column_index(self.document_column))
        return ["--document-column", "document" if self.as_json else self.document_column if table.is_json else index]

    def find_document_column(self, name: str) -> str:
        """Return the name of the document column, which all tables must have."""
        names = [table.find_column(name, option="--document-column").name for table in self.tables.values()]
        return names[0]

    def get_side_names(self, part: DatasetPart) -> Sequence[str]:
        """Return the file and the column of each side."""
        return [f"{self.get_first_file(part)} ({self.tables[part].format_column(column)})" for column in self.columns]

    @property
    def format_description(self) -> str:
        """Description of the table."""
        return self.tables[self.present_parts[0]].description

    @property
    def learning_description(self) -> str:
        """Description of source and target; the first column is the source."""
        source, target = map(self.tables[self.present_parts[0]].format_column, self.columns)
        return f"{source} becomes {target}{self.direction_note}"

    def read_examples(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """Read one example for each row in the table of a part."""
        columns = self.columns if self.document_column is None else (*self.columns, self.document_column)
        for row in self.tables[part].read_rows(columns):
            source, target, *document = row.values
            names = ("source", "target", "document")
            raw = dict(zip(names, row.values, strict=False)) if self.as_json else row.raw
            yield DatasetExample((source, target), (), row.line, raw, (*document[:1],) or (source,))

    def to_recipe_table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Return the recipe table of one part: its path in `files` and the columns, by index in tables, by name in
        JSON.
        """
        if self.as_json:
            document_entry = {} if self.document_column is None else {"document_field": "document"}
            return {"path": files[0], "source_field": "source", "target_field": "target", **document_entry}
        table = self.tables[self.present_parts[0]]
        if table.is_json:
            document_entry = {} if self.document_column is None else {"document_field": self.document_column}
            return {
                "path": files[0],
                "source_field": self.columns[0],
                "target_field": self.columns[1],
                **document_entry,
            }
        numbers = [table.get_column_index(column) for column in self.columns]
        column_entries = {} if numbers == [0, 1] else {"source_column": numbers[0], "target_column": numbers[1]}
        if self.document_column is not None:
            column_entries["document_column"] = table.get_column_index(self.document_column)
        return {"path": files[0], **column_entries}

    def build_writer(self, folder: Path, part: DatasetPart, *, compress: bool) -> PartWriter:
        """Build the writer of the file of a part in `folder`, with the same kind of table, but JSON lines in place of
        CSV; `compress` adds gzip.
        """
        if self.as_json:
            return JsonlPartWriter(folder / f"{part}.jsonl{'.gz' * compress}")
        return self.tables[self.present_parts[0]].build_writer(folder, part, compress=compress, with_header=False)


@final
@dataclass(frozen=True)
class ParallelLinesFormat(DataFormat):
    """Format of two files whose lines translate each other."""

    confidence: float = 0.95

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Yield a dataset if no columns are named and there are two plain text files for each part; the order of the
        languages is that of the first part.
        """
        if columns or not all(isinstance(file.shape, PlainLinesShape) for file in files):
            return
        parts = group_by_part(files)
        if any(len(pair) != 2 for pair in parts.values()):
            return
        first_tags = [file.name_info.language.tag for file in parts[next(iter(parts))]]
        ordered = {}
        for part, pair in parts.items():
            tags = [file.name_info.language.tag for file in pair]
            ordered[part] = pair[::-1] if all(tags) and tags == first_tags[::-1] else pair
        train = ordered.get("train") or next(iter(ordered.values()))
        languages = _detect_file_languages(train)
        yield DetectedLineFiles(
            files={part: [file.path for file in pair] for part, pair in ordered.items()},
            confidence=self.confidence,
            languages=languages,
        )

    def get_hint(self, files: Sequence[FileSniff]) -> str:
        """Return which files are missing or surplus if all are plain text and some part has two files or more; else an
        empty text.
        """
        parts = group_by_part(files)
        if (
            not all(isinstance(file.shape, PlainLinesShape) for file in files)
            or max(map(len, parts.values()), default=0) < 2
        ):
            return ""
        wrong_part = next(((part, group) for part, group in parts.items() if len(group) != 2), None)
        if wrong_part is None:
            return ""
        part, part_files = wrong_part
        names = ", ".join(file.path.name for file in part_files)
        return (
            f"{names}: {len(part_files)} file{'s' * (len(part_files) > 1)} for {part}, but translations need two; give "
            "two text files for each part, the source first, as in heedful new train.en train.de"
        )


@final
@dataclass(frozen=True)
class ParallelColumnsFormat(DataFormat):
    """Format of two columns of a table, or fields of JSON, that translate each other."""

    confidence: float = 0.9

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Yield a dataset with the two named columns, or else the first two columns of free text that seem to be
        translations; nothing if there are none. The confidence is lower if they are in one language or it is unknown.
        """
        tables = select_tables(files)
        if tables is None:
            return
        table = tables[next(iter(tables))]
        if columns and len(columns) != 2:
            return
        texts = [table.find_column(name) for name in columns] or [item for item in table.columns if item.is_text]
        texts = texts[:_MAX_TEXT_COLUMNS]
        languages_by_column = _detect_column_languages(table, [item.name for item in texts])
        pair = table.language_pair
        for number, first in enumerate(texts):
            for second in texts[number + 1 :]:
                languages = languages_by_column[first.name], languages_by_column[second.name]
                has_two_languages = all(languages) and languages[0] != languages[1]
                has_two_columns = len(texts) == 2 and len(table.columns) == 2
                if not (has_two_languages or has_two_columns or columns or (len(texts) == 2 and pair)):
                    continue
                if pair and not all(languages):
                    languages = pair
                is_confirmed = bool(columns) and first.is_text and second.is_text
                confidence = (
                    self.confidence if has_two_languages or is_confirmed else 0.6 if pair or has_two_columns else 0.4
                )
                yield DetectedColumnPair(
                    files={part: [item.path] for part, item in tables.items()},
                    confidence=confidence,
                    languages=languages,
                    tables=tables,
                    columns=(first.name, second.name),
                    notes=[item.exclusion_note for item in tables.values() if item.exclusion_note],
                    as_json=table.delimiter not in ("", "\t"),
                    conversion_reason=_explain_conversion(table),
                )
                return


def _group_by_document(examples: Iterator[DatasetExample]) -> Iterator[DatasetExample]:
    """Yield the examples with the sources of their whole document as split key. An example with an empty source ends a
    document and belongs to it.
    """
    document: list[DatasetExample] = []
    for example in chain(examples, [None]):
        if example is not None:
            document.append(example)
        if example is None or not example.texts[0].strip():
            document_text = "\n".join(member.texts[0] for member in document)
            yield from (replace(member, split_keys=(document_text,)) for member in document)
            document = []


def _detect_column_languages(table: DataTable, names: Sequence[str]) -> Mapping[str, LanguageInfo]:
    """Return the language of each named column of a table: by the names of the columns if these name different ones,
    else by the texts.
    """
    named_languages = {name: parse_column_language(name) for name in names} if table.has_header else {}
    if len({language.tag for language in named_languages.values() if language}) < 2:
        named_languages = {}
    return {
        name: named_languages.get(name) or guess_language(table.get_sample_values(name)[:_NUM_SAMPLE_LINES])
        for name in names
    }


def _explain_conversion(table: DataTable) -> str:
    """Return in a sentence why a table of parallel text must be written in another form: it is a CSV file or has a
    header; empty if it can be read as it is.
    """
    if table.delimiter not in ("", "\t"):
        return "parallel text is not read from CSV files, so it is written as lines of JSON"
    if table.has_header and not table.is_json:
        return "parallel text is read from tables without a header, so it is written without one"
    return ""


def _detect_file_languages(files: Sequence[FileSniff]) -> list[LanguageInfo]:
    """Return the language of each file: by its name, by the names of two folders, or by its text."""
    by_folder = [parse_column_language(file.path.parent.name) for file in files]
    has_different_folders = all(by_folder) and len({language.tag for language in by_folder}) == len(files)
    languages = []
    for file, folder in zip(files, by_folder, strict=True):
        assert isinstance(file.shape, PlainLinesShape)
        languages.append(
            file.name_info.language
            or (folder if has_different_folders else guess_language(file.shape.lines[:_NUM_SAMPLE_LINES]))
        )
    return languages


def describe_misalignment(source: Path, target: Path) -> str:
    """Describe where the files of source and target, which have different numbers of lines, stop corresponding.

    This is the line from which on, if the next lines of the longer file are left out, the lengths and digits of both
    sides match best.
    """
    statistics = [_measure_lines(source), _measure_lines(target)]
    counts = [len(side) for side in statistics]
    summary = (
        f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}; line-aligned files must have the same number"
    )
    longer = int(counts[1] > counts[0])
    surplus = abs(counts[0] - counts[1])
    long, short = statistics[longer], statistics[1 - longer]
    path = (source, target)[longer]
    if all(size < 0 for size in long.sizes[len(short) :]):
        return (
            f"{summary}. {path} has {surplus:,} extra empty line{'s' * (surplus > 1)} at its end: remove "
            f"{'them' if surplus > 1 else 'it'}"
        )
    first_line = _find_shift_start(long, short, surplus)
    lines = [_read_line(side, first_line) for side in (source, target)]
    return (
        f"{summary}. They seem to stop matching at line {first_line:,}, where {path} begins to have {surplus:,} more:\n"
        f"  {format_example(f'{source}:{first_line}', lines[0])}\n  "
        f"{format_example(f'{target}:{first_line}', lines[1])}\n"
        "Correct that place and try again; there may be others"
    )


@dataclass(frozen=True)
class _LineStatistics:
    """The log length of each line, -1 for an empty one, and a checksum of its digits."""

    sizes: array[float]
    digits: array[int]

    def __len__(self) -> int:
        return len(self.sizes)


def _measure_lines(path: Path) -> _LineStatistics:
    """Compute the log length of each line of a file, and a checksum of its digits."""
    statistics = _LineStatistics(array("d"), array("L"))
    for line in read_lines(path):
        statistics.sizes.append(log(1 + estimate_tokens(line)) if line.strip() else -1.0)
        statistics.digits.append(crc32("".join(filter(str.isdigit, line)).encode()))
    return statistics


def _find_shift_start(long: _LineStatistics, short: _LineStatistics, surplus: int) -> int:
    """Return the line, counted from 1, from which on the lines of the longer file match those of the shorter one best
    if `surplus` lines are skipped before it.
    """
    gain = best = 0.0
    first = 0
    for number in range(len(short)):
        gain += _compute_mismatch(long, number + surplus, short, number) - _compute_mismatch(
            long, number, short, number
        )
        if gain > best:
            best, first = gain, number + 1
    return first + 1


def _compute_mismatch(long: _LineStatistics, number: int, short: _LineStatistics, short_number: int) -> float:
    """Return how badly line `number` of the longer file and line `short_number` of the shorter one match in length and
    digits: from 0 to 2.
    """
    size, short_size = long.sizes[number], short.sizes[short_number]
    if (size < 0) != (short_size < 0):
        return 2.0
    return min(1.0, abs(size - short_size)) + (long.digits[number] != short.digits[short_number])


def _read_line(path: Path, number: int) -> str:
    """Return one line of a file; empty if there is none."""
    return next((line for count, line in enumerate(read_lines(path), 1) if count == number), "")
