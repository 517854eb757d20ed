"""Which sentences of parallel text are most like given ones, by words that both have; the text may be of any length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Final, final

import numpy as np
from jaxtyping import Float

from heedful.data.readers import SentencePair
from heedful.data.word_boundaries import split_words

_MAX_NGRAM: Final = 3
"""Words of the longest n-gram that is compared."""
_K1: Final = 1.5
_B: Final = 0.75
_PROGRESS_INTERVAL: Final = 1000
"""Pairs between two times that somebody is told how many were read."""

NgramCounts = Counter[tuple[str, ...]]
ProgressCallback = Callable[[int, int | None], None]
"""Told how many pairs have been read, and how many will be, None before that is known."""


@dataclass(frozen=True)
class SimilarPair:
    """A pair whose source is like a sentence, and how much: BM25 of n-grams of 1 to 3 words."""

    score: float
    pair: SentencePair


@dataclass(frozen=True)
class SimilarityReport:
    """What a text has of given sentences.

    Attributes:
        num_pairs: that the text has.
        similar_pairs: of each sentence, best first; none where nothing of it stands in the text.
        counts: how often each word of the sentences, case folded, stands in sources of the text.
    """

    num_pairs: int
    similar_pairs: Sequence[Sequence[SimilarPair]]
    counts: Counter[str]


def find_similar_pairs(
    sentences: Sequence[str],
    read_pairs: Callable[[], Iterable[SentencePair]],
    *,
    max_pairs: int = 3,
    on_progress: ProgressCallback = lambda _, __: None,
) -> SimilarityReport:
    """Reads a text twice: to learn how rare n-grams are, and to score each source by those that it shares.

    The score is BM25 as Lucene counts it (Kamphuis et al. 2020), k1 = 1.5 and b = 0.75, where terms are n-grams of 1 to
    3 words, so that words in the same order count more. Of pairs that are the same the first counts, and so does the
    first of those that have the same score.

    Args:
        sentences: to be compared with sources.
        read_pairs: the pairs of the text, from its start.
        max_pairs: how many are found for each sentence.
        on_progress: told now and then; each pair is read twice, and counts so.

    Raises:
        DataError: the text cannot be read.
    """
    sentence_ngrams = [frozenset(_count_ngrams(split_words(sentence))) for sentence in sentences]
    row_of = {
        ngram: row
        for row, ngram in enumerate(dict.fromkeys(ngram for ngrams in sentence_ngrams for ngram in sorted(ngrams)))
    }
    document_frequencies, counts = np.zeros(len(row_of)), Counter[str]()
    num_pairs = num_words = 0
    for pair in read_pairs():
        source_words = split_words(pair.source)
        ngrams = _count_ngrams(source_words)
        document_frequencies[[row_of[ngram] for ngram in ngrams if ngram in row_of]] += 1
        counts.update(word for word in source_words if (word,) in row_of)
        num_pairs, num_words = num_pairs + 1, num_words + len(source_words)
        if not num_pairs % _PROGRESS_INTERVAL:
            on_progress(num_pairs, None)
    weights = np.zeros((len(row_of), len(sentences)))
    for column, own_ngrams in enumerate(sentence_ngrams):
        row_indices = [row_of[ngram] for ngram in own_ngrams]
        weights[row_indices, column] = [
            log(1 + (num_pairs - n + 0.5) / (n + 0.5)) for n in document_frequencies[row_indices]
        ]
    best = [_TopPairs(max_pairs) for _ in sentences]
    for number, pair in enumerate(read_pairs()):
        if not number % _PROGRESS_INTERVAL:
            on_progress(num_pairs + number, 2 * num_pairs)
        source_words = split_words(pair.source)
        ngrams = _count_ngrams(source_words)
        shared = [(row_of[ngram], times) for ngram, times in ngrams.items() if ngram in row_of]
        if shared:
            _update_best(
                best,
                pair,
                _compute_bm25(weights, shared, length_ratio=len(source_words) * num_pairs / max(1, num_words)),
            )
    return SimilarityReport(num_pairs, [top_pairs.pairs for top_pairs in best], counts)


@final
@dataclass
class _TopPairs:
    """The few best of one sentence."""

    max_pairs: int
    pairs: list[SimilarPair] = field(default_factory=list)

    @property
    def threshold(self) -> float:
        """What a score must exceed."""
        return self.pairs[-1].score if len(self.pairs) == self.max_pairs else 0.0

    def add_pair(self, new_pair: SimilarPair) -> None:
        """Behind those with the same score; nothing that is there already."""
        if all(new_pair.pair[:2] != pair.pair[:2] for pair in self.pairs):
            self.pairs = sorted([*self.pairs, new_pair], key=lambda pair: -pair.score)[: self.max_pairs]


def _update_best(best: Sequence[_TopPairs], pair: SentencePair, scores: Float[np.ndarray, " N"]) -> None:
    for row in np.flatnonzero(scores).tolist():
        if scores[row] > best[row].threshold:
            best[row].add_pair(SimilarPair(float(scores[row]), pair))


def _compute_bm25(
    weights: Float[np.ndarray, "grams N"], shared: Sequence[tuple[int, int]], *, length_ratio: float
) -> Float[np.ndarray, " N"]:
    """Of one source against all sentences; `length_ratio` is how many times as long as the mean it is."""
    rows, counts = np.array(shared).T
    scores: np.ndarray = (counts / (counts + _K1 * (1 - _B + _B * length_ratio))) @ weights[rows]
    return scores.round(9)  # what is equal must not differ by how it was added up


def _count_ngrams(tokens: Sequence[str]) -> NgramCounts:
    return Counter(
        tuple(tokens[start : start + size])
        for size in range(1, _MAX_NGRAM + 1)
        for start in range(len(tokens) - size + 1)
    )
