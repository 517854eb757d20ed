"""Words with tags: columns with empty lines between sentences, and CoNLL-U."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from heedful.data.forms.columns import Profile
from heedful.data.forms.faults import Empty, Fault, Garbled, Labels, Leaked, Repeated
from heedful.data.forms.form import Example, Form, Found, by_part
from heedful.data.forms.glance import Glance, Words
from heedful.data.forms.languages import guessed
from heedful.data.forms.naming import Part, plain_suffix
from heedful.data.forms.saving import LineSaver, Saver
from heedful.data.readers import read_lines
from heedful.data.tagged import Columns, ConllU, TaggedReader
from heedful.errors import DataError, RecipeError

_UPOS: Final = 3


@final
@dataclass(frozen=True, kw_only=True)
class TaggedFound(Found):
    """A word on each line, with its tag in another column.

    Attributes:
        conllu: whether it is CoNLL-U.
        word: column of the words.
        tag: column of their tags.
    """

    noun: str = "sentences"
    said: str = "tags"
    conllu: bool
    word: int
    tag: int

    @property
    def seen(self) -> str:
        """The format."""
        return "CoNLL-U" if self.conllu else "a word on each line, with empty lines between sentences"

    @property
    def taken(self) -> str:
        """Which column is what."""
        if self.conllu:
            return "a word gets its part of speech (upos)"
        return f"a word (column {self.word}) gets the tag in column {self.tag}"

    def examples(self, part: Part) -> Iterator[Example]:
        """Sentence by sentence, with comments above them."""
        path = self.first(part)
        reader: TaggedReader = (
            ConllU(path) if self.conllu else Columns(path, word_column=self.word, tag_column=self.tag)
        )
        for begin, lines in _blocks(path):
            found = [reader.word(line, place=f"{path}:{begin + number}") for number, line in enumerate(lines)]
            words = [each for each in found if each is not None]
            if words:
                text = " ".join(word for word, _ in words)
                yield Example((text,), tuple(tag for _, tag in words), begin, "\n".join([*lines, ""]), (text,))

    def table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Its columns, where they are not the first two."""
        named_so = plain_suffix(Path(files[0])) == ".conllu"
        kind = {} if self.conllu == named_so else {"kind": "conllu" if self.conllu else "columns"}
        own = (
            {} if self.conllu or (self.word, self.tag) == (0, 1) else {"word_column": self.word, "tag_column": self.tag}
        )
        return {"path": files[0], **kind, **own}

    def saver(self, folder: Path, part: Part, *, zipped: bool) -> Saver:
        """The lines as they are."""
        return LineSaver(folder / f"{part}.{'conllu' if self.conllu else 'txt'}{'.gz' * zipped}")

    def faults(self) -> Sequence[Fault]:
        """Those of tagged words."""
        return [
            Labels("words", what=("tag", "tags"), balanced=False),
            Leaked(),
            Empty(self.noun, fatal=True),
            Repeated(
                self.noun,
                called="sentences",
                conflict="with tags in two ways or more",
                remedy="a model can learn only one of them: decide which is right",
            ),
            Garbled(self.noun),
        ]


def _blocks(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines between empty ones, and the number of the first."""
    lines: list[str] = []
    number = 0
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            lines.append(line)
        elif lines:
            yield number - len(lines), lines
            lines = []
    if lines:
        yield number - len(lines) + 1, lines


@final
@dataclass(frozen=True)
class TaggedWords(Form):
    """A word and its tag on each line."""

    certainty: float = 0.9

    def find(self, files: Sequence[Glance], columns: Sequence[str]) -> Iterator[Found]:
        """The tag in the last column with few values; less certain where several columns may be."""
        if not all(isinstance(file.shape, Words) for file in files):
            return
        parts = by_part(files)
        several = next((each for each in parts.values() if len(each) > 1), None)
        if several is not None:
            raise DataError(
                f"{several[0].path} and {several[1].path} are for the same part by their names; name one file for each "
                "part, or join them"
            )
        train = parts.get("train") or next(iter(parts.values()))
        shape = train[0].shape
        assert isinstance(shape, Words)
        word, tag, others = (1, _UPOS, []) if shape.conllu else _columns(shape.columns, columns)
        texts = list(shape.columns[word].counts)
        yield TaggedFound(
            files={part: [each[0].path] for part, each in parts.items()},
            certainty=self.certainty if not others else 0.7,
            languages=[guessed(texts)],
            conllu=shape.conllu,
            word=word,
            tag=tag,
            notes=[f"columns {', '.join(map(str, others))} may be tags as well: --columns {word} {others[0]}"]
            if others
            else [],
        )


def _columns(known: Sequence[Profile], named: Sequence[str]) -> tuple[int, int, list[int]]:
    """The columns of words and of tags, and others that may be tags."""
    if named:
        numbers = [int(name) for name in named if name.isdecimal() and int(name) < len(known)]
        if len(numbers) != len(named) or len(set(numbers)) != 2:
            raise RecipeError(
                f"--columns: {' '.join(named)}; give the numbers of two columns from 0 to {len(known) - 1}, of words "
                "and of tags"
            )
        return numbers[0], numbers[1], []
    word = max(known, key=lambda each: (each.numeric < 0.5) * each.distinct * (each.letters > 0.3)).number
    tags = [each.number for each in known if each.number != word and each.is_label and each.numeric < 0.5]
    tag = tags[-1] if tags else len(known) - 1
    return word, tag, [number for number in tags if number != tag]
