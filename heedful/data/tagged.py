"""Readers of sentences with a tag for each word."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, final

from heedful.data.readers import ExampleReader, read_lines
from heedful.errors import DataError

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
        words: list[tuple[str, str, str]] = []
        for line_number, line in enumerate(read_lines(self.paths[0]), 1):
            location = f"{self.paths[0]}:{line_number}"
            if line.strip():
                word = self.parse_line(line, location=location)
                if word is not None:
                    words.append((*word, location))
            elif words:
                yield TaggedSentence(*zip(*words, strict=True))
                words = []
        if words:
            yield TaggedSentence(*zip(*words, strict=True))

    @abstractmethod
    def parse_line(self, line: str, *, location: str) -> tuple[str, str] | None:
        """Return the word of a line and its tag; None if the line has no word."""


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
        """Return the word and its tag; None for comments, ranges and empty nodes."""
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
    """Return the word and the tag in the given columns; raise `DataError` if one is missing or empty."""
    num_columns = max(word_column, tag_column) + 1
    if len(fields) < num_columns:
        raise DataError(
            f"{location}: {len(fields)} column{'s' * (len(fields) > 1)} where {num_columns} are needed; mend the line "
            "or "
            "choose other columns"
        )
    if not fields[word_column].strip() or not fields[tag_column].strip():
        raise DataError(f"{location}: an empty word or tag; mend the line or choose other columns")
    return fields[word_column].strip(), fields[tag_column].strip()
