"""Detect words with tags: columns with empty lines between sentences, and CoNLL-U."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from heedful.data.detect.format import DataFormat, DatasetExample, DetectedDataset, group_by_part
from heedful.data.detect.label_checks import LabelDistributionCheck
from heedful.data.detect.languages import guess_language
from heedful.data.detect.part_writers import LinePartWriter, PartWriter
from heedful.data.detect.sniff import FileSniff, WordLinesShape
from heedful.data.readers import read_lines
from heedful.data.tagged import ConlluReader, TaggedColumnsReader, TaggedReader
from heedful.errors import DataError, RecipeError

_UPOS_COLUMN: Final = 3


@final
@dataclass(frozen=True, kw_only=True)
class DetectedTaggedWords(DetectedDataset):
    """A dataset with a word on each line and its tag in another column.

    Attributes:
        is_conllu: whether it is CoNLL-U.
        word_column: column of the words.
        tag_column: column of the tags.
    """

    noun: str = "sentences"
    label_noun: str = "tags"
    is_conllu: bool
    word_column: int
    tag_column: int

    @property
    def format_description(self) -> str:
        """Description of the format."""
        return "CoNLL-U" if self.is_conllu else "a word on each line, with empty lines between sentences"

    @property
    def learning_description(self) -> str:
        """Description of the word column and the tag column."""
        if self.is_conllu:
            return "a word gets its part of speech (upos)"
        return f"a word (column {self.word_column}) gets the tag in column {self.tag_column}"

    def read_examples(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """Read one example for each sentence, with the comments above it."""
        path = self.get_first_file(part)
        reader: TaggedReader = (
            ConlluReader(path)
            if self.is_conllu
            else TaggedColumnsReader(path, word_column=self.word_column, tag_column=self.tag_column)
        )
        for first_line, lines in _read_blocks(path):
            tagged_words = [
                reader.parse_line(line, location=f"{path}:{first_line + offset}") for offset, line in enumerate(lines)
            ]
            words = [item for item in tagged_words if item is not None]
            if words:
                text = " ".join(word for word, _ in words)
                yield DatasetExample(
                    (text,), tuple(tag for _, tag in words), first_line, "\n".join([*lines, ""]), (text,)
                )

    def to_recipe_table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Return the path, and the columns if they are not the first two."""
        has_conllu_suffix = get_suffix(Path(files[0])) == ".conllu"
        kind = {} if self.is_conllu == has_conllu_suffix else {"kind": "conllu" if self.is_conllu else "columns"}
        column_entries = (
            {}
            if self.is_conllu or (self.word_column, self.tag_column) == (0, 1)
            else {"word_column": self.word_column, "tag_column": self.tag_column}
        )
        return {"path": files[0], **kind, **column_entries}

    def build_writer(self, folder: Path, part: DatasetPart, *, compress: bool) -> PartWriter:
        """Build a writer of unchanged lines."""
        return LinePartWriter(folder / f"{part}.{'conllu' if self.is_conllu else 'txt'}{'.gz' * compress}")

    def build_checks(self) -> Sequence[DataCheck]:
        """Return the checks for tagged words."""
        return [
            LabelDistributionCheck("words", label_nouns=("tag", "tags"), balanced=False),
            LeakageCheck(),
            *count_faults(self.noun, EmptyTextCheck(fatal=True)),
            RepeatCheck(
                self.noun,
                input_noun="sentences",
                conflict="with tags in two ways or more",
                remedy="a model can learn only one of them: decide which is right",
            ),
            *count_faults(self.noun, *ENCODING_CHECKS),
        ]


def _read_blocks(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line and the lines of each block between empty lines."""
    lines: list[str] = []
    line_number = 0
    for line_number, line in enumerate(read_lines(path), 1):
        if line.strip():
            lines.append(line)
        elif lines:
            yield line_number - len(lines), lines
            lines = []
    if lines:
        yield line_number - len(lines) + 1, lines


@final
@dataclass(frozen=True)
class TaggedWordsFormat(DataFormat):
    """Format of a word and its tag on each line."""

    confidence: float = 0.9

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Detect the tag in the last column with few values; the confidence is lower if several columns may hold
        tags.
        """
        if not all(isinstance(file.shape, WordLinesShape) for file in files):
            return
        parts = group_by_part(files)
        conflicting_files = next((part_files for part_files in parts.values() if len(part_files) > 1), None)
        if conflicting_files is not None:
            raise DataError(
                f"{conflicting_files[0].path} and {conflicting_files[1].path} have names of the same part; give one "
                "file for each part, or join them"
            )
        train = parts.get("train") or next(iter(parts.values()))
        shape = train[0].shape
        assert isinstance(shape, WordLinesShape)
        word, tag, others = (1, _UPOS_COLUMN, []) if shape.is_conllu else _select_columns(shape.columns, columns)
        texts = list(shape.columns[word].value_counts)
        yield DetectedTaggedWords(
            files={part: [part_files[0].path] for part, part_files in parts.items()},
            confidence=self.confidence if not others else 0.7,
            languages=[guess_language(texts)],
            is_conllu=shape.is_conllu,
            word_column=word,
            tag_column=tag,
            notes=[f"columns {', '.join(map(str, others))} may be tags as well: --columns {word} {others[0]}"]
            if others
            else [],
        )


def _select_columns(columns: Sequence[ColumnProfile], names: Sequence[str]) -> tuple[int, int, list[int]]:
    """Return the columns of words and tags, and other columns that may hold tags."""
    if names:
        numbers = [int(name) for name in names if name.isdecimal() and int(name) < len(columns)]
        if len(numbers) != len(names) or len(set(numbers)) != 2:
            raise RecipeError(
                f"--columns: {' '.join(names)}; give the numbers of two columns from 0 to {len(columns) - 1}, for "
                "words and for tags"
            )
        return numbers[0], numbers[1], []
    word = max(
        columns, key=lambda column: (column.numeric_share < 0.5) * column.num_distinct * (column.letter_share > 0.3)
    ).index
    tags = [
        column.index for column in columns if column.index != word and column.is_label and column.numeric_share < 0.5
    ]
    tag = tags[-1] if tags else len(columns) - 1
    return word, tag, [number for number in tags if number != tag]
