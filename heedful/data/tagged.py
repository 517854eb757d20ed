"""Sentences whose words have tags, as they stand in files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, final

from heedful.data.readers import Reader, read_lines
from heedful.errors import DataError

_CONLLU: Final = {"upos": 3, "xpos": 4, "deprel": 7}


class TaggedSentence(NamedTuple):
    """Words, a tag for each, and the line on which each stands (`file:line`)."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    places: tuple[str, ...]


class TaggedReader(Reader[TaggedSentence]):
    """Tagged sentences, a word on each line.

    Abstract: the columns belong to the format.
    """

    def __iter__(self) -> Iterator[TaggedSentence]:
        words: list[tuple[str, str, str]] = []
        for number, line in enumerate(read_lines(self.paths[0]), 1):
            place = f"{self.paths[0]}:{number}"
            if line.strip():
                word = self.word(line, place=place)
                if word is not None:
                    words.append((*word, place))
            elif words:
                yield TaggedSentence(*zip(*words, strict=True))
                words = []
        if words:
            yield TaggedSentence(*zip(*words, strict=True))

    @abstractmethod
    def word(self, line: str, *, place: str) -> tuple[str, str] | None:
        """The word of a line and its tag; None where there is none."""


@final
class Columns(TaggedReader):
    """A word and its tag in two columns, counted from 0; an empty line ends a sentence."""

    def __init__(self, path: Path, *, word_column: int = 0, tag_column: int = 1) -> None:
        super().__init__(path)
        self._columns = (word_column, tag_column)

    def word(self, line: str, *, place: str) -> tuple[str, str] | None:
        """By its columns."""
        fields = line.split("\t") if "\t" in line else line.split()
        return _fields(fields, *self._columns, place=place)


@final
class ConllU(TaggedReader):
    """Universal Dependencies: ten columns, comments, ranges (`3-4`) and empty nodes (`8.1`), which are no words."""

    def __init__(self, path: Path, *, tag: Literal["upos", "xpos", "deprel"] = "upos") -> None:
        super().__init__(path)
        self._column = _CONLLU[tag]

    def word(self, line: str, *, place: str) -> tuple[str, str] | None:
        """Nothing for comments, ranges and empty nodes."""
        if line.startswith("#"):
            return None
        fields = line.split("\t")
        if not fields[0].isdecimal():
            if set(fields[0]) <= set("0123456789-."):
                return None
            raise DataError(f"{place}: a word's number is missing; CoNLL-U has ten columns between tabs")
        return _fields(fields, 1, self._column, place=place)


def _fields(fields: Sequence[str], word: int, tag: int, *, place: str) -> tuple[str, str]:
    needed = max(word, tag) + 1
    if len(fields) < needed:
        raise DataError(
            f"{place}: {len(fields)} column{'s' * (len(fields) > 1)} where {needed} are needed; mend the line or "
            "choose other columns"
        )
    if not fields[word].strip() or not fields[tag].strip():
        raise DataError(f"{place}: an empty word or tag; mend the line or choose other columns")
    return fields[word].strip(), fields[tag].strip()
