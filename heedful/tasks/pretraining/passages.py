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

from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.documents import DocumentChunk
from heedful.data.random_numbers import SeededRandom
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError

_MAX_SENTENCE_IDS: Final = 64
"""Ids in the longest sentence that is kept in one part, so that a passage has borders to be cut at."""
_PAIRING_STREAM, _TRIMMING_STREAM = 0, 1


@dataclass(frozen=True)
class PassageSegments:
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
    def num_ids(self) -> int:
        """How many there are."""
        return len(self.first) + (0 if self.second is None else len(self.second))


@dataclass(frozen=True)
class EncodedSentence:
    """The ids of a sentence or a part of one, and whether a document begins with it."""

    ids: list[int]
    starts_document: bool


def encode_sentences(
    documents: Iterable[DocumentChunk], tokenizer: Tokenizer, split: Callable[[str], Iterable[str]]
) -> Iterator[EncodedSentence]:
    """The sentences of documents, cut by `split`; what has no piece is left out, long ones come in parts."""
    starts_document = True
    for document in documents:
        for sentence in split(document.text):
            ids = tokenizer.encode(sentence)
            for start in range(0, len(ids), _MAX_SENTENCE_IDS):
                yield EncodedSentence(ids[start : start + _MAX_SENTENCE_IDS], starts_document)
                starts_document = False
        starts_document = starts_document or document.is_last


def build_sentence_encoding(tokenizer: Tokenizer) -> ExampleEncoder[EncodedSentence]:
    """A mark of one id, 1 where a document begins, and the sentence as it is."""
    return ExampleEncoder(
        {"begins": 2, "text": tokenizer.size}, lambda sentence: ([int(sentence.starts_document)], sentence.ids)
    )


class PassagePairing(ABC):
    """What stands behind a passage, and so what its second part is asked about."""

    has_pairs = True
    """Whether there is a second part, and `follows` is a question."""

    @property
    def num_special_tokens(self) -> int:
        """Ids that are added to a passage: its begin, and the end of each part."""
        return 3 if self.has_pairs else 2

    @abstractmethod
    def make_passage(
        self, documents: DocumentIndex, sentences: range, *, max_ids: int, rng: SeededRandom
    ) -> tuple[PassageSegments, int]:
        """The passage that begins with a stretch of sentences, and how many of them it used up."""


@final
class NoPairing(PassagePairing):
    """One passage, nothing asked (Liu et al. 2019)."""

    has_pairs = False

    def make_passage(
        self, documents: DocumentIndex, sentences: range, *, max_ids: int, rng: SeededRandom
    ) -> tuple[PassageSegments, int]:
        """All of it."""
        return PassageSegments(documents.find_id_range(sentences), None, follows=True), len(sentences)


@final
class NextSentencePairing(PassagePairing):
    """In half of the pairs the second passage follows the first, in the others it is from another document."""

    def make_passage(
        self, documents: DocumentIndex, sentences: range, *, max_ids: int, rng: SeededRandom
    ) -> tuple[PassageSegments, int]:
        """The stretch cut somewhere, its end kept or replaced (Devlin et al. 2019, 3.1 and A.2)."""
        split = sentences.start + 1 + rng.next_int(len(sentences) - 1)
        first = range(sentences.start, split)
        if rng.next_float() < 0.5:
            return PassageSegments(
                documents.find_id_range(first), documents.find_id_range(range(split, sentences.stop)), follows=True
            ), len(sentences)
        other = documents.sample_other_document(
            first.start, max_ids=max_ids - len(documents.find_id_range(first)), rng=rng
        )
        return PassageSegments(documents.find_id_range(first), documents.find_id_range(other), follows=False), len(
            first
        )


@final
class SentenceOrderPairing(PassagePairing):
    """Two passages that follow each other, in half of the pairs in the wrong order (Lan et al. 2020, 3.1)."""

    def make_passage(
        self, documents: DocumentIndex, sentences: range, *, max_ids: int, rng: SeededRandom
    ) -> tuple[PassageSegments, int]:
        """The stretch cut somewhere, its parts kept in order or exchanged."""
        split = sentences.start + 1 + rng.next_int(len(sentences) - 1)
        segments = (
            documents.find_id_range(range(sentences.start, split)),
            documents.find_id_range(range(split, sentences.stop)),
        )
        follows = bool(rng.next_float() < 0.5)
        first, second = segments if follows else segments[::-1]
        return PassageSegments(first, second, follows=follows), len(sentences)


@final
class DocumentIndex:
    """A corpus of sentences, and where its documents begin and end."""

    def __init__(self, corpus: Corpus) -> None:
        lengths = corpus["text"].lengths
        is_start = np.flatnonzero(np.asarray(corpus["begins"].stream))
        document_starts = np.append(is_start, len(lengths))
        # a single number of an array is slow to take, and these are asked for one by one
        self._starts = array("q", np.concatenate(([0], np.cumsum(lengths))).astype(np.int64).tobytes())
        self._first_sentences = array("q", document_starts.astype(np.int64).tobytes())
        self._document_numbers = array(
            "q", np.repeat(np.arange(len(is_start)), np.diff(document_starts)).astype(np.int64).tobytes()
        )
        self.stream: Integer[np.ndarray, " ids"] = corpus["text"].stream

    def __len__(self) -> int:
        """Sentences."""
        return len(self._starts) - 1

    @property
    def num_documents(self) -> int:
        """Documents."""
        return len(self._first_sentences) - 1

    @property
    def has_sentence_pairs(self) -> bool:
        """Whether some document has two sentences."""
        return self.num_documents < len(self)

    def get_document_number(self, sentence: int) -> int:
        """That of the document that a sentence stands in."""
        return self._document_numbers[sentence]

    def find_document_sentences(self, sentence: int) -> range:
        """The sentences of the document that a sentence stands in."""
        number = self.get_document_number(sentence)
        return range(self._first_sentences[number], self._first_sentences[number + 1])

    def find_id_range(self, sentences: range) -> range:
        """Where their ids are in the stream."""
        return range(self._starts[sentences.start], self._starts[sentences.stop])

    def take_sentences(self, start: int, *, max_ids: int) -> range:
        """The sentences from `start` on that fill `max_ids` ids, the last one perhaps beyond it, in one document."""
        last = self.find_document_sentences(start).stop
        full = bisect_left(self._starts, self._starts[start] + max_ids, start, last)
        return range(start, max(start + 1, full))

    def sample_other_document(self, sentence: int, *, max_ids: int, rng: SeededRandom) -> range:
        """Sentences from a place in another document than that of `sentence`."""
        document = self._document_numbers[sentence]
        other_document = rng.next_int(self.num_documents - 1)
        other_document += other_document >= document
        start, stop = self._first_sentences[other_document], self._first_sentences[other_document + 1]
        return self.take_sentences(start + rng.next_int(stop - start), max_ids=max(1, max_ids))


@final
class PassageSampler:
    """The examples of each epoch: a passage is a function of the seed and its number.

    A passage begins with some sentence and takes what follows in the document until `max_length` is full, or, in the
    share `short_share` of all cases, a random smaller length. Where two parts are wanted, documents of one sentence begin
    none, and what was exchanged for a passage from elsewhere begins the next one. Passages that are still too long lose
    ids of their longer part, at its front or back.

    Args:
        corpus: made with `build_sentence_encoding`.
        pairing: what the second part is.
        max_length: ids of a passage, its begin and ends included.
        short_share: share of passages that aim at a smaller length.
        seed: of the run.

    Raises:
        DataError: a second part must come from the same or another document, and there is none.
    """

    def __init__(
        self, corpus: Corpus, *, pairing: PassagePairing, max_length: int, short_share: float, seed: int
    ) -> None:
        self.documents = DocumentIndex(corpus)
        if pairing.has_pairs and self.documents.num_documents < 2:
            raise DataError(
                "the text is one document, so no passage can come from another: put an empty line between documents, "
                'or set training.pairing = "alone"'
            )
        if pairing.has_pairs and not self.documents.has_sentence_pairs:
            raise DataError(
                "no document has two sentences, so no passage can follow another: give longer documents, or set "
                'training.pairing = "alone"'
            )
        self.pairing = pairing
        self.max_ids = max_length - pairing.num_special_tokens
        self.short_share = short_share
        self.seed = seed

    def plan(self, epoch: int) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
        """The numbers of an epoch's passages, in the order of the text, and the ids of each with begin and ends."""
        numbers, lengths = [], []
        sentence = 0
        while sentence < len(self.documents):
            number = epoch * len(self.documents) + sentence
            sample = self._sample_passage(number)
            if sample is None:
                sentence += 1
                continue
            passage, num_used = sample
            numbers.append(number)
            lengths.append(min(passage.num_ids, self.max_ids) + self.pairing.num_special_tokens)
            sentence += num_used
        return np.array(numbers, dtype=np.int64), np.array(lengths, dtype=np.int64)

    def __getitem__(self, number: int) -> PassageSegments:
        """The passage with one of the numbers of `plan`."""
        sample = self._sample_passage(number)
        assert sample is not None, f"{number} is no passage"
        return _trim_passage(sample[0], max_ids=self.max_ids, rng=SeededRandom(self.seed, number, _TRIMMING_STREAM))

    def _sample_passage(self, number: int) -> tuple[PassageSegments, int] | None:
        start = number % len(self.documents)
        rng = SeededRandom(self.seed, number, _PAIRING_STREAM)
        max_ids = self.max_ids
        if rng.next_float() < self.short_share:
            max_ids = 2 + rng.next_int(self.max_ids - 1)
        sentences = self.documents.take_sentences(start, max_ids=max_ids)
        num_shifted = 0
        if self.pairing.has_pairs and len(sentences) < 2:
            document = self.documents.find_document_sentences(start)
            if len(document) < 2:
                return None
            num_shifted = int(start + 2 > document.stop)  # the last sentence takes the one before it along
            sentences = range(start - num_shifted, start - num_shifted + 2)
        passage, num_used = self.pairing.make_passage(self.documents, sentences, max_ids=max_ids, rng=rng)
        return passage, max(1, num_used - num_shifted)


def _trim_passage(passage: PassageSegments, *, max_ids: int, rng: SeededRandom) -> PassageSegments:
    """Without ids of the longer part, one by one at its front or back, until there is room (Devlin et al. 2019)."""
    first, second = passage.first, passage.second
    if second is None:
        return PassageSegments(first[:max_ids], None, passage.follows)
    excess = max(0, passage.num_ids - max_ids)
    # The longer part first comes down to the other, then both lose in turn.
    from_first = min(excess, max(0, len(first) - len(second)))
    from_second = min(excess - from_first, max(0, len(second) - len(first)))
    remaining = excess - from_first - from_second
    first = _trim_range(first, from_first + remaining // 2, rng)
    second = _trim_range(second, from_second + remaining - remaining // 2, rng)
    return PassageSegments(first, second, passage.follows)


def _trim_range(segment: range, excess: int, rng: SeededRandom) -> range:
    front = int((rng.uniform(excess) < 0.5).sum()) if excess else 0
    return segment[front : len(segment) - (excess - front)]
