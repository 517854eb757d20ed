"""Pairs of passages from documents: what BERT reads while it is pre-trained (Devlin et al. 2019, A.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from jaxtyping import Int, Integer

from heedful.data.chance import Chance
from heedful.data.corpus import Corpus, Encoding
from heedful.data.documents import Document
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError

_PIECES: Final = 64
"""Ids in the longest sentence that is kept in one part, so that a passage has borders to be cut at."""
_PAIRING, _TRIMMING = 0, 1


@dataclass(frozen=True)
class Passage:
    """Two stretches of a corpus, as ids of its stream from `start` to `stop`.

    Attributes:
        first: the passage that is read first.
        second: the other one; None where there is one alone.
        follows: whether the second follows the first in a document.
    """

    first: range
    second: range | None
    follows: bool

    @property
    def ids(self) -> int:
        """How many there are."""
        return len(self.first) + (0 if self.second is None else len(self.second))


@dataclass(frozen=True)
class Sentence:
    """The ids of a sentence or a part of one, and whether a document begins with it."""

    ids: list[int]
    begins: bool


def sentences_of(
    documents: Iterable[Document], tokenizer: Tokenizer, split: Callable[[str], Iterable[str]]
) -> Iterator[Sentence]:
    """The sentences of documents, cut by `split`; what has no piece is left out, long ones come in parts."""
    begins = True
    for document in documents:
        for sentence in split(document.text):
            ids = tokenizer.encode(sentence)
            for start in range(0, len(ids), _PIECES):
                yield Sentence(ids[start : start + _PIECES], begins)
                begins = False
        begins = begins or document.ends


def sentence_encoding(tokenizer: Tokenizer) -> Encoding[Sentence]:
    """A mark of one id, 1 where a document begins, and the sentence as it is."""
    return Encoding({"begins": 2, "text": tokenizer.size}, lambda sentence: ([int(sentence.begins)], sentence.ids))


class Pairing(ABC):
    """What stands behind a passage, and so what its second part is asked about."""

    asks = True
    """Whether there is a second part, and `follows` is a question."""

    @property
    def special(self) -> int:
        """Ids that are added to a passage: its begin, and the end of each part."""
        return 3 if self.asks else 2

    @abstractmethod
    def pair(self, text: Documents, stretch: range, *, room: int, chance: Chance) -> tuple[Passage, int]:
        """The passage that begins with a stretch of sentences, and how many of them it used up."""


@final
class Alone(Pairing):
    """One passage, nothing asked (Liu et al. 2019)."""

    asks = False

    def pair(self, text: Documents, stretch: range, *, room: int, chance: Chance) -> tuple[Passage, int]:
        """All of it."""
        return Passage(text.ids(stretch), None, follows=True), len(stretch)


@final
class NextSentence(Pairing):
    """In half of the pairs the second passage follows the first, in the others it is from another document."""

    def pair(self, text: Documents, stretch: range, *, room: int, chance: Chance) -> tuple[Passage, int]:
        """The stretch cut somewhere, its end kept or replaced (Devlin et al. 2019, 3.1 and A.2)."""
        cut = stretch.start + 1 + chance.below(len(stretch) - 1)
        first = range(stretch.start, cut)
        if chance.number() < 0.5:
            return Passage(text.ids(first), text.ids(range(cut, stretch.stop)), follows=True), len(stretch)
        other = text.elsewhere(first.start, room=room - len(text.ids(first)), chance=chance)
        return Passage(text.ids(first), text.ids(other), follows=False), len(first)


@final
class SentenceOrder(Pairing):
    """Two passages that follow each other, in half of the pairs in the wrong order (Lan et al. 2020, 3.1)."""

    def pair(self, text: Documents, stretch: range, *, room: int, chance: Chance) -> tuple[Passage, int]:
        """The stretch cut somewhere, its parts kept in order or exchanged."""
        cut = stretch.start + 1 + chance.below(len(stretch) - 1)
        parts = text.ids(range(stretch.start, cut)), text.ids(range(cut, stretch.stop))
        follows = bool(chance.number() < 0.5)
        first, second = parts if follows else parts[::-1]
        return Passage(first, second, follows=follows), len(stretch)


@final
class Documents:
    """A corpus of sentences, and where its documents begin and end."""

    def __init__(self, corpus: Corpus) -> None:
        lengths = corpus["text"].lengths
        begins = np.flatnonzero(np.asarray(corpus["begins"].stream))
        first = np.append(begins, len(lengths))
        # a single number of an array is slow to take, and these are asked for one by one
        self._starts = array("q", np.concatenate(([0], np.cumsum(lengths))).astype(np.int64).tobytes())
        self._first = array("q", first.astype(np.int64).tobytes())
        self._document = array("q", np.repeat(np.arange(len(begins)), np.diff(first)).astype(np.int64).tobytes())
        self.stream: Integer[np.ndarray, " ids"] = corpus["text"].stream

    def __len__(self) -> int:
        """Sentences."""
        return len(self._starts) - 1

    @property
    def count(self) -> int:
        """Documents."""
        return len(self._first) - 1

    @property
    def paired(self) -> bool:
        """Whether some document has two sentences."""
        return self.count < len(self)

    def number(self, sentence: int) -> int:
        """That of the document that a sentence stands in."""
        return self._document[sentence]

    def document(self, sentence: int) -> range:
        """The sentences of the document that a sentence stands in."""
        number = self.number(sentence)
        return range(self._first[number], self._first[number + 1])

    def ids(self, sentences: range) -> range:
        """Where their ids are in the stream."""
        return range(self._starts[sentences.start], self._starts[sentences.stop])

    def until(self, start: int, *, room: int) -> range:
        """The sentences from `start` on that fill `room` ids, the last one perhaps beyond it, in one document."""
        last = self.document(start).stop
        full = bisect_left(self._starts, self._starts[start] + room, start, last)
        return range(start, max(start + 1, full))

    def elsewhere(self, sentence: int, *, room: int, chance: Chance) -> range:
        """Sentences from a place in another document than that of `sentence`."""
        mine = self._document[sentence]
        other = chance.below(self.count - 1)
        other += other >= mine
        first, stop = self._first[other], self._first[other + 1]
        return self.until(first + chance.below(stop - first), room=max(1, room))


@final
class Passages:
    """The examples of each epoch: a passage is a function of the seed and its number.

    A passage begins with some sentence and takes what follows in the document until `max_length` is full, or, in the
    share `short` of all cases, a random smaller length. Where two parts are wanted, documents of one sentence begin
    none, and what was exchanged for a passage from elsewhere begins the next one. Passages that are still too long lose
    ids of their longer part, at its front or back.

    Args:
        corpus: made with `sentence_encoding`.
        pairing: what the second part is.
        max_length: ids of a passage, its begin and ends included.
        short: share of passages that aim at a smaller length.
        seed: of the run.

    Raises:
        DataError: a second part must come from the same or another document, and there is none.
    """

    def __init__(self, corpus: Corpus, *, pairing: Pairing, max_length: int, short: float, seed: int) -> None:
        self.text = Documents(corpus)
        if pairing.asks and self.text.count < 2:
            raise DataError(
                "the text is one document, so no passage can come from another: put an empty line between documents, "
                'or set training.pairing = "alone"'
            )
        if pairing.asks and not self.text.paired:
            raise DataError(
                "no document has two sentences, so no passage can follow another: give longer documents, or set "
                'training.pairing = "alone"'
            )
        self.pairing = pairing
        self.room = max_length - pairing.special
        self.short = short
        self.seed = seed

    def plan(self, epoch: int) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
        """The numbers of an epoch's passages, in the order of the text, and the ids of each with begin and ends."""
        numbers, lengths = [], []
        place = 0
        while place < len(self.text):
            number = epoch * len(self.text) + place
            found = self._find(number)
            if found is None:
                place += 1
                continue
            passage, used = found
            numbers.append(number)
            lengths.append(min(passage.ids, self.room) + self.pairing.special)
            place += used
        return np.array(numbers, dtype=np.int64), np.array(lengths, dtype=np.int64)

    def __getitem__(self, number: int) -> Passage:
        """The passage with one of the numbers of `plan`."""
        found = self._find(number)
        assert found is not None, f"{number} is no passage"
        return _shortened(found[0], room=self.room, chance=Chance(self.seed, number, _TRIMMING))

    def _find(self, number: int) -> tuple[Passage, int] | None:
        start = number % len(self.text)
        chance = Chance(self.seed, number, _PAIRING)
        room = self.room
        if chance.number() < self.short:
            room = 2 + chance.below(self.room - 1)
        stretch = self.text.until(start, room=room)
        spare = 0
        if self.pairing.asks and len(stretch) < 2:
            document = self.text.document(start)
            if len(document) < 2:
                return None
            spare = int(start + 2 > document.stop)  # the last sentence takes the one before it along
            stretch = range(start - spare, start - spare + 2)
        passage, used = self.pairing.pair(self.text, stretch, room=room, chance=chance)
        return passage, max(1, used - spare)


def _shortened(passage: Passage, *, room: int, chance: Chance) -> Passage:
    """Without ids of the longer part, one by one at its front or back, until there is room (Devlin et al. 2019)."""
    first, second = passage.first, passage.second
    if second is None:
        return Passage(first[:room], None, passage.follows)
    excess = max(0, passage.ids - room)
    # The longer part first comes down to the other, then both lose in turn.
    one = min(excess, max(0, len(first) - len(second)))
    two = min(excess - one, max(0, len(second) - len(first)))
    left = excess - one - two
    first = _trimmed(first, one + left // 2, chance)
    second = _trimmed(second, two + left - left // 2, chance)
    return Passage(first, second, passage.follows)


def _trimmed(part: range, excess: int, chance: Chance) -> range:
    front = int((chance.uniform(excess) < 0.5).sum()) if excess else 0
    return part[front : len(part) - (excess - front)]
