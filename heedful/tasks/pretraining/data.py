"""Passages of documents, as BERT reads them in pre-training, and their masked tokens (Devlin et al. 2019)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from jaxtyping import Bool, Int, Integer

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
    """One or two segments of a corpus, as index ranges of its id stream.

    Attributes:
        first: the segment that is read first.
        second: the second segment; None if there is only one.
        follows: whether the second segment follows the first in a document.
    """

    first: range
    second: range | None
    follows: bool

    @property
    def num_ids(self) -> int:
        """Number of ids."""
        return len(self.first) + (0 if self.second is None else len(self.second))


@dataclass(frozen=True)
class EncodedSentence:
    """The ids of a sentence or of a part of one, and whether a document starts with it."""

    ids: list[int]
    starts_document: bool


def encode_sentences(
    documents: Iterable[DocumentChunk], tokenizer: Tokenizer, split: Callable[[str], Iterable[str]]
) -> Iterator[EncodedSentence]:
    """Split documents into sentences with `split` and encode them. Drop sentences without ids; cut sentences of more
    than 64 ids into parts of 64, the last one shorter.
    """
    starts_document = True
    for document in documents:
        for sentence in split(document.text):
            ids = tokenizer.encode(sentence)
            for start in range(0, len(ids), _MAX_SENTENCE_IDS):
                yield EncodedSentence(ids[start : start + _MAX_SENTENCE_IDS], starts_document)
                starts_document = False
        starts_document = starts_document or document.is_last


def build_sentence_encoding(tokenizer: Tokenizer) -> ExampleEncoder[EncodedSentence]:
    """Return the encoding of a sentence: a flag, 1 where a document starts, and the ids."""
    return ExampleEncoder(
        {"begins": 2, "text": tokenizer.size}, lambda sentence: ([int(sentence.starts_document)], sentence.ids)
    )


class PassagePairing(ABC):
    """Strategy that chooses the second segment of a passage, and so the sentence-pair question."""

    has_pairs = True
    """Whether there is a second part, and `follows` is a question."""

    @property
    def num_special_tokens(self) -> int:
        """Number of special tokens in a passage: the start token and the end token of each segment."""
        return 3 if self.has_pairs else 2

    @abstractmethod
    def make_passage(
        self, documents: DocumentIndex, sentences: range, *, max_ids: int, rng: SeededRandom
    ) -> tuple[PassageSegments, int]:
        """Return a passage whose first segment comes from the sentences with the numbers `sentences` of `documents`,
        which are consecutive and of one document, and how many of these sentences are used. `max_ids` is the wanted
        number of ids, without special tokens; `rng` makes the random choices.
        """


@final
class NoPairing(PassagePairing):
    """Passages of one segment without a sentence-pair question (Liu et al. 2019)."""

    has_pairs = False

    def make_passage(
        self, documents: DocumentIndex, sentences: range, *, max_ids: int, rng: SeededRandom
    ) -> tuple[PassageSegments, int]:
        """Return all the sentences as one segment, and their number; the limit and `rng` are not used."""
        return PassageSegments(documents.find_id_range(sentences), None, follows=True), len(sentences)


@final
class NextSentencePairing(PassagePairing):
    """In half of the pairs the second segment follows the first, in the others it comes from another document."""

    def make_passage(
        self, documents: DocumentIndex, sentences: range, *, max_ids: int, rng: SeededRandom
    ) -> tuple[PassageSegments, int]:
        """Cut the sentences at a random point; keep the second segment or replace it by sentences of another document,
        so that both have about `max_ids` ids (Devlin et al. 2019, 3.1, A.2). Return the passage and how many sentences
        it consumed.
        """
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
    """Two consecutive segments, in half of the pairs in the wrong order (Lan et al. 2020, 3.1)."""

    def make_passage(
        self, documents: DocumentIndex, sentences: range, *, max_ids: int, rng: SeededRandom
    ) -> tuple[PassageSegments, int]:
        """Cut the sentences at a random point, and swap the two segments in half of the cases; return the passage and
        the number of sentences. `max_ids` is not used.
        """
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
    """A corpus of sentences with the boundaries of its documents."""

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
        """Return the number of sentences."""
        return len(self._starts) - 1

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return len(self._first_sentences) - 1

    @property
    def has_sentence_pairs(self) -> bool:
        """Whether any document has at least two sentences."""
        return self.num_documents < len(self)

    def get_document_number(self, sentence: int) -> int:
        """Return the number of the document that contains the sentence with this number."""
        return self._document_numbers[sentence]

    def find_document_sentences(self, sentence: int) -> range:
        """Return the numbers of all sentences in the document that contains the sentence with this number."""
        number = self.get_document_number(sentence)
        return range(self._first_sentences[number], self._first_sentences[number + 1])

    def find_id_range(self, sentences: range) -> range:
        """Return the index range of the sentences' ids in the stream, given the range of their numbers."""
        return range(self._starts[sentences.start], self._starts[sentences.stop])

    def take_sentences(self, start: int, *, max_ids: int) -> range:
        """Return the numbers of sentences of one document from number `start` on that fill `max_ids` ids; the last may
        exceed it.
        """
        last = self.find_document_sentences(start).stop
        full = bisect_left(self._starts, self._starts[start] + max_ids, start, last)
        return range(start, max(start + 1, full))

    def sample_other_document(self, sentence: int, *, max_ids: int, rng: SeededRandom) -> range:
        """Return the numbers of sentences that fill `max_ids` ids, from a random position in a document other than that
        of `sentence`.
        """
        document = self._document_numbers[sentence]
        other_document = rng.next_int(self.num_documents - 1)
        other_document += other_document >= document
        start, stop = self._first_sentences[other_document], self._first_sentences[other_document + 1]
        return self.take_sentences(start + rng.next_int(stop - start), max_ids=max(1, max_ids))


@final
class PassageSampler:
    """Passages of each epoch; a passage is determined by the seed and its number.

    A passage starts with some sentence and takes the following ones of the document until `max_length` is reached or,
    in a share `short_share` of the cases, a random smaller length. If there are two segments, no passage starts in a
    document of one sentence, and sentences that were replaced by others start the next passage. Passages that are still
    too long lose ids at the start or end of their longer segment.

    Args:
        corpus: made with `build_sentence_encoding`.
        pairing: chooses the second segment.
        max_length: ids of a passage, special tokens included.
        short_share: share of passages that aim at a smaller length.
        seed: of the run.

    Raises:
        DataError: a second segment must come from the same or another document, and there is no such document.
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
        """Return the numbers of an epoch's passages in text order, and the length of each with special tokens."""
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
        """Return the passage with one of the numbers from `plan`, cut to the maximal length."""
        sample = self._sample_passage(number)
        assert sample is not None, f"{number} is not a passage"
        return _trim_passage(sample[0], max_ids=self.max_ids, rng=SeededRandom(self.seed, number, _TRIMMING_STREAM))

    def _sample_passage(self, number: int) -> tuple[PassageSegments, int] | None:
        """Return the uncut passage with a number and how many sentences it consumed; None if no passage with two
        sentences can start there.
        """
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
    """Remove ids from the start or end of the longer segment, at random, until the passage has at most `max_ids` ids
    (Devlin et al. 2019); a single segment loses its end.
    """
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
    """Remove `excess` ids from a range, each at random from its start or its end."""
    front = int((rng.uniform(excess) < 0.5).sum()) if excess else 0
    return segment[front : len(segment) - (excess - front)]


_LONGEST_SPAN = 10
_SPAN_END_PROBABILITY = 0.2
_SPAN_PROBABILITY_MASS = 1 - (1 - _SPAN_END_PROBABILITY) ** _LONGEST_SPAN


class MaskingStrategy(ABC):
    """Chooses the tokens that a model must predict.

    Args:
        share: of all tokens, in the mean.
    """

    def __init__(self, share: float) -> None:
        self.share = share

    @final
    def choose_tokens(self, continues: Bool[np.ndarray, " T"], rng: SeededRandom) -> Bool[np.ndarray, " T"]:
        """Choose the tokens of a text to predict, and return a mask of them; `continues` says of each token whether it
        belongs to the word of the token before it.

        The number is share * T rounded up or down at random, so that the share is right in the mean, whatever T is;
        where tokens are chosen by groups, the last group may be chosen in part or left out to keep to it.
        """
        count = int(self.share * len(continues) + rng.next_float())
        return self._choose_count(continues, count, rng)

    @abstractmethod
    def _choose_count(
        self, continues: Bool[np.ndarray, " T"], count: int, rng: SeededRandom
    ) -> Bool[np.ndarray, " T"]: ...


@final
class TokenMasking(MaskingStrategy):
    """Each token by itself (Devlin et al. 2019, A.1)."""

    def _choose_count(self, continues: Bool[np.ndarray, " T"], count: int, rng: SeededRandom) -> Bool[np.ndarray, " T"]:
        return _select_first(np.argsort(rng.uniform(len(continues)), kind="stable"), count, size=len(continues))


@final
class WholeWordMasking(MaskingStrategy):
    """All tokens of a word or none; the last word chosen is hidden in part where the share asks for fewer.

    BERT's later release chooses so, and skips words that are too long; here the share is kept exactly.
    """

    def _choose_count(self, continues: Bool[np.ndarray, " T"], count: int, rng: SeededRandom) -> Bool[np.ndarray, " T"]:
        words = np.cumsum(~continues)
        keys = rng.uniform(int(words[-1]) + 1 if len(words) else 0)
        return _select_first(np.argsort(keys[words], kind="stable"), count, size=len(continues))


@final
class SpanMasking(MaskingStrategy):
    """Stretches of neighbouring words (Joshi et al. 2020, 3.1).

    Their number of words is geometric with p = 0.2 among those up to 10, so that its mean is 3.8, as the paper says; to
    cut longer ones at 10 would make it 4.5.
    """

    def _choose_count(self, continues: Bool[np.ndarray, " T"], count: int, rng: SeededRandom) -> Bool[np.ndarray, " T"]:
        """Choose random spans of words, with lengths from a geometric distribution, until `count` tokens are chosen;
        return a mask of them. `continues` says which tokens do not begin a word.
        """
        chosen = np.zeros(len(continues), dtype=bool)
        # a piece that continues a word from before the text is a word here
        word_starts = np.unique(np.concatenate(([0], np.flatnonzero(~continues), [len(continues)])))
        while chosen.sum() < count:
            length = 1 + int(np.log1p(-rng.next_float() * _SPAN_PROBABILITY_MASS) / np.log1p(-_SPAN_END_PROBABILITY))
            start_word = rng.next_int(len(word_starts) - 1)
            end_word = min(start_word + length, len(word_starts) - 1)
            span = np.arange(word_starts[start_word], word_starts[end_word])
            chosen[span[~chosen[span]][: count - int(chosen.sum())]] = True
        return chosen


def mask_tokens(
    ids: Int[np.ndarray, " T"],
    chosen: Bool[np.ndarray, " T"],
    *,
    mask: int,
    words: Int[np.ndarray, " W"],
    rng: SeededRandom,
) -> Int[np.ndarray, " T"]:
    """Return the ids of a text; each chosen one becomes `mask` (80 %), a random one of the ids `words` (10 %) or stays
    (10 %).
    """
    action_draws, word_draws = rng.uniform(2 * len(ids)).reshape(2, -1)
    masked = np.where(chosen & (action_draws < 0.8), mask, ids)
    return np.where(chosen & (action_draws >= 0.9), words[(word_draws * len(words)).astype(np.int64)], masked)


def _select_first(order: Int[np.ndarray, " T"], count: int, *, size: int) -> Bool[np.ndarray, " T"]:
    chosen = np.zeros(size, dtype=bool)
    chosen[order[:count]] = True
    return chosen
