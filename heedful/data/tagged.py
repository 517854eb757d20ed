"""Sentences with a tag for each word: columns and CoNLL-U, their readers and how their files are detected."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, final

from heedful.data.detect.checks import ENCODING_CHECKS, EmptyTextCheck, LeakageCheck, RepeatCheck, count_faults
from heedful.data.detect.column_profiles import ColumnProfile
from heedful.data.detect.file_names import DatasetPart, get_suffix
from heedful.data.detect.format import (
    DataCheck,
    DataFormat,
    DatasetExample,
    DetectedDataset,
    LinePartWriter,
    PartWriter,
    group_by_part,
)
from heedful.data.detect.label_checks import LabelDistributionCheck
from heedful.data.detect.languages import guess_language
from heedful.data.detect.sniff import FileSniff, WordLinesShape
from heedful.data.readers import ExampleReader, read_blocks
from heedful.errors import DataError, RecipeError

_CONLLU_COLUMNS: Final = {"upos": 3, "xpos": 4, "deprel": 7}


class TaggedSentence(NamedTuple):
    """Words, a tag for each, and the location of each (`file:line`)."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    locations: tuple[str, ...]


class TaggedReader(ExampleReader[TaggedSentence]):
    """Base of readers of tagged sentences with one word on each line.

    Abstract: each format defines its columns.
    """

    def __iter__(self) -> Iterator[TaggedSentence]:
        for first_line, lines in read_blocks(self.paths[0]):
            words: list[tuple[str, str, str]] = []
            for line_number, line in enumerate(lines, first_line):
                location = f"{self.paths[0]}:{line_number}"
                word = self.parse_line(line, location=location)
                if word is not None:
                    words.append((*word, location))
            if words:
                yield TaggedSentence(*zip(*words, strict=True))

    @abstractmethod
    def parse_line(self, line: str, *, location: str) -> tuple[str, str] | None:
        """Return the word of a line and its tag; None if the line has no word. `location` is the line in messages."""


@final
class TaggedColumnsReader(TaggedReader):
    """Read a word and its tag from two columns, counted from 0; an empty line ends a sentence."""

    def __init__(self, path: Path, *, word_column: int = 0, tag_column: int = 1) -> None:
        super().__init__(path)
        self._columns = (word_column, tag_column)

    def parse_line(self, line: str, *, location: str) -> tuple[str, str] | None:
        """Return the word and the tag in their columns."""
        fields = line.split("\t") if "\t" in line else line.split()
        return _extract_word_and_tag(fields, *self._columns, location=location)


@final
class ConlluReader(TaggedReader):
    """Read CoNLL-U of Universal Dependencies: ten columns; comments, ranges (`3-4`) and empty nodes (`8.1`) are not
    words.
    """

    def __init__(self, path: Path, *, tag: Literal["upos", "xpos", "deprel"] = "upos") -> None:
        super().__init__(path)
        self._column = _CONLLU_COLUMNS[tag]

    def parse_line(self, line: str, *, location: str) -> tuple[str, str] | None:
        """Return the word and its tag; None for comments, ranges and empty nodes. Raise `DataError` at `location` if
        the number of the word or a column is missing.
        """
        if line.startswith("#"):
            return None
        fields = line.split("\t")
        if not fields[0].isdecimal():
            if set(fields[0]) <= set("0123456789-."):
                return None
            raise DataError(f"{location}: a word's number is missing; CoNLL-U has ten columns between tabs")
        return _extract_word_and_tag(fields, 1, self._column, location=location)


def _extract_word_and_tag(
    fields: Sequence[str], word_column: int, tag_column: int, *, location: str
) -> tuple[str, str]:
    """Return the word and the tag in the given columns of a line; raise `DataError` at `location` if one is missing or
    empty.
    """
    num_columns = max(word_column, tag_column) + 1
    if len(fields) < num_columns:
        raise DataError(
            f"{location}: {len(fields)} column{'s' * (len(fields) > 1)} where {num_columns} are needed; correct the "
            "line or choose other columns"
        )
    if not fields[word_column].strip() or not fields[tag_column].strip():
        raise DataError(f"{location}: an empty word or tag; correct the line or choose other columns")
    return fields[word_column].strip(), fields[tag_column].strip()


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
        """Read one example for each sentence in the file of a part, with the comments above it."""
        path = self.get_first_file(part)
        reader: TaggedReader = (
            ConlluReader(path)
            if self.is_conllu
            else TaggedColumnsReader(path, word_column=self.word_column, tag_column=self.tag_column)
        )
        for first_line, lines in read_blocks(path):
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
        """Return the recipe table of one part: its path in `files`, and the columns if they are not the first two."""
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


@final
@dataclass(frozen=True)
class TaggedWordsFormat(DataFormat):
    """Format of a word and its tag on each line."""

    confidence: float = 0.9

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Yield a dataset if all files have a word on each line. The tag is in the column that `columns` names, or else
        in the last one with few values; the confidence is lower if several columns may hold tags.
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
    """Return the columns of words and tags, and other columns that may hold tags. `names` are the numbers of both
    columns; if it is empty, they are chosen by the profiles of all columns.
    """
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
