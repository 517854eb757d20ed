"""Sentences whose words have tags."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from heedful.data.batches import tokens_of
from heedful.data.corpus import Corpus, Encoding
from heedful.data.labels import Labels
from heedful.data.readers import Reader, read_lines
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.metrics.classes import hits
from heedful.metrics.entities import entity_metrics
from heedful.metrics.metric import Metric, Ratio
from heedful.values import Tokens

_CONLLU = {"upos": 3, "xpos": 4, "deprel": 7}
_PREFIXES = ("B", "I", "E", "L", "S", "U")
_STAND_INS = tuple(f"{prefix}-\0" for prefix in _PREFIXES)


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
                word = self._word(line, place=place)
                if word is not None:
                    words.append((*word, place))
            elif words:
                yield TaggedSentence(*zip(*words, strict=True))
                words = []
        if words:
            yield TaggedSentence(*zip(*words, strict=True))

    @abstractmethod
    def _word(self, line: str, *, place: str) -> tuple[str, str] | None:
        """The word of a line and its tag; None where there is none."""


@final
class Columns(TaggedReader):
    """A word and its tag in two columns, counted from 0; an empty line ends a sentence."""

    def __init__(self, path: Path, *, word_column: int = 0, tag_column: int = 1) -> None:
        super().__init__(path)
        self._columns = (word_column, tag_column)

    def _word(self, line: str, *, place: str) -> tuple[str, str] | None:
        fields = line.split("\t") if "\t" in line else line.split()
        return _fields(fields, *self._columns, place=place)


@final
class ConllU(TaggedReader):
    """Universal Dependencies: ten columns, comments, ranges (`3-4`) and empty nodes (`8.1`), which are no words."""

    def __init__(self, path: Path, *, tag: Literal["upos", "xpos", "deprel"] = "upos") -> None:
        super().__init__(path)
        self._column = _CONLLU[tag]

    def _word(self, line: str, *, place: str) -> tuple[str, str] | None:
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


@dataclass(frozen=True)
class TaggedBatch:
    """Sentences, and the tag of each word at its first token; -1 where there is none.

    A tag that the training text lacks has a number that no model can say.
    """

    tokens: Tokens
    tags: Int[Tensor, "B T"]


def encode_words(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[list[int], list[int]]:
    """The ids of words that are cut one by one, and where each begins; what has no piece is unknown."""
    unknown = tokenizer.special.eos if tokenizer.special.unk is None else tokenizer.special.unk
    ids: list[int] = []
    begins: list[int] = []
    for word in words:
        begins.append(len(ids))
        ids += tokenizer.encode(word) or [unknown]
    return ids, begins


def framed_words(tokenizer: Tokenizer, words: Sequence[str], *, framed: bool) -> tuple[list[int], list[int]]:
    """As `encode_words`, between a begin and an end where the model reads them."""
    ids, begins = encode_words(tokenizer, words)
    if not framed:
        return ids, begins
    special = tokenizer.special
    return [special.bos, *ids, special.eos], [begin + 1 for begin in begins]


@dataclass(frozen=True)
class Stretch:
    """Words of a long sentence that are read together, and those of them whose tags are taken from this reading."""

    read: range
    taken: range


def stretches(sizes: Sequence[int], *, room: int) -> list[Stretch]:
    """Words with at most `room` ids each time, so that every word is taken once, with context on both sides.

    Stretches overlap by half; in what two of them share, each gives the tags of its own half. A word that has more ids
    than there is room for is read alone.

    Args:
        sizes: ids of each word, at least 1.
        room: ids that are read at a time, at least 1.
    """
    ends = np.cumsum(sizes)
    if not len(ends) or ends[-1] <= room:
        return [Stretch(range(len(sizes)), range(len(sizes)))] if len(ends) else []
    reads: list[range] = []
    start = 0
    while True:
        before = int(ends[start] - sizes[start])
        stop = max(start + 1, int(np.searchsorted(ends, before + room, side="right")))
        reads.append(range(start, stop))
        if stop == len(sizes):
            break
        start = max(start + 1, min(stop, int(np.searchsorted(ends, before + room // 2, side="right"))))
    borders = [0, *((a.stop + b.start + 1) // 2 for a, b in pairwise(reads)), len(sizes)]
    return [Stretch(read, range(*border)) for read, border in zip(reads, pairwise(borders), strict=True)]


def stand_in(tag: str) -> str:
    """What stands for a tag that the training text lacks: the same part of an entity of a type that no file holds."""
    prefix = tag.partition("-")[0]
    return _STAND_INS[_PREFIXES.index(prefix) if prefix in _PREFIXES else 0]


def with_stand_ins(tags: Labels) -> tuple[str, ...]:
    """The names that `TaggedBatch.tags` counts: the known ones, then those of tags that the training text lacks."""
    return (*tags.names, *_STAND_INS)


def tag_metrics(found: Sequence[Sequence[str]], golds: Sequence[Sequence[str]], *, entities: bool) -> dict[str, Metric]:
    """The share of words whose tag is right, and where `entities` their precision, recall and F1; weighs sentences.

    Raises:
        DataError: sentences or tags that do not match in number.
    """
    right = np.array([float(hits(mine, tags).sum()) for mine, tags in zip(found, golds, strict=True)])
    accuracy = Ratio(right, np.array([float(len(tags)) for tags in golds]))
    return {"accuracy": accuracy, **(entity_metrics(found, golds) if entities else {})}


def tagged_encoding(
    tokenizer: Tokenizer, tags: Labels, *, max_length: int, framed: bool = False
) -> Encoding[TaggedSentence]:
    """Tokens, and the label of each: one more than the tag's number in `with_stand_ins`, or 0 where there is none.

    Args:
        tokenizer: of the words.
        tags: their names.
        max_length: ids of a sentence at most.
        framed: whether it is read between a begin and an end.
    """
    numbers = {name: number for number, name in enumerate(with_stand_ins(tags), 1)}

    def encode(sentence: TaggedSentence) -> tuple[list[int] | None, list[int] | None]:
        ids, begins = framed_words(tokenizer, sentence.words, framed=framed)
        if len(ids) > max_length:
            return None, None
        labels = [0] * len(ids)
        for begin, tag in zip(begins, sentence.tags, strict=True):
            labels[begin] = numbers[tag if tags.id(tag) is not None else stand_in(tag)]
        return ids, labels

    sizes = {"tokens": tokenizer.size, "tags": len(numbers) + 1}
    return Encoding(sizes, encode, identity=lambda sentence: (sentence.words, sentence.tags))


def collate_tagged(corpus: Corpus, rows: Integer[np.ndarray, " B"]) -> TaggedBatch:
    """The sentences in `rows`, padded on the right."""
    tags = np.maximum(corpus["tags"].padded(rows) - 1, -1)
    return TaggedBatch(tokens_of(corpus["tokens"].padded(rows)), torch.from_numpy(tags))
