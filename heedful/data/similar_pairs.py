"""Find the pairs of parallel text whose sources are most similar to given sentences, by shared words; the text may
be of any length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Final, final

import numpy as np
from jaxtyping import Float

from heedful.data.readers import SentencePair
from heedful.data.token_offsets import split_words

_MAX_NGRAM: Final = 3
"""Words of the longest n-gram that is compared."""
_K1: Final = 1.5
_B: Final = 0.75
_PROGRESS_INTERVAL: Final = 1000
"""Number of pairs between two reports of progress."""

NgramCounts = Counter[tuple[str, ...]]
ProgressCallback = Callable[[int, int | None], None]
"""Called with the number of pairs read and the total number of pairs to read, None before that is known."""


@dataclass(frozen=True)
class SimilarPair:
    """A pair and the similarity of its source to a sentence: BM25 over n-grams of 1 to 3 words."""

    score: float
    pair: SentencePair


@dataclass(frozen=True)
class SimilarityReport:
    """The pairs of a text that are similar to given sentences.

    Attributes:
        num_pairs: number of pairs in the text.
        similar_pairs: the most similar pairs of each sentence, best first; empty if nothing is shared.
        counts: frequency of each word of the sentences, case folded, in the sources of the text.
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
    """Find the `max_pairs` pairs of a parallel text whose sources are most similar to each sentence.

    The text is read twice: to count n-grams, and to score each source.

    The score is BM25 as in Lucene (Kamphuis et al. 2020), k1 = 1.5 and b = 0.75, over n-grams of 1 to 3 words, so that
    words in the same order count more. Of equal pairs only the first counts, and pairs with equal scores keep their
    order.

    Args:
        sentences: sentences to compare with sources.
        read_pairs: returns the pairs of the text, from its start.
        max_pairs: number of pairs to find for each sentence.
        on_progress: called from time to time; as each pair is read twice, it counts twice.

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
    """The best pairs of one sentence."""

    max_pairs: int
    pairs: list[SimilarPair] = field(default_factory=list)

    @property
    def threshold(self) -> float:
        """Score that a new pair must exceed."""
        return self.pairs[-1].score if len(self.pairs) == self.max_pairs else 0.0

    def add_pair(self, new_pair: SimilarPair) -> None:
        """Insert a pair after those with the same score, and drop the worst; equal pairs are ignored."""
        if all(new_pair.pair[:2] != pair.pair[:2] for pair in self.pairs):
            self.pairs = sorted([*self.pairs, new_pair], key=lambda pair: -pair.score)[: self.max_pairs]


def _update_best(best: Sequence[_TopPairs], pair: SentencePair, scores: Float[np.ndarray, " N"]) -> None:
    """Add a pair to the best pairs of every sentence for which its score in `scores` is high enough."""
    for row in np.flatnonzero(scores).tolist():
        if scores[row] > best[row].threshold:
            best[row].add_pair(SimilarPair(float(scores[row]), pair))


def _compute_bm25(
    weights: Float[np.ndarray, "grams N"], shared: Sequence[tuple[int, int]], *, length_ratio: float
) -> Float[np.ndarray, " N"]:
    """Compute the BM25 score of one source for all sentences. `weights` has the weight of each n-gram in each sentence,
    `shared` the row and the frequency of each n-gram of the source there, and `length_ratio` is its length divided by
    the mean length.
    """
    rows, counts = np.array(shared).T
    scores: np.ndarray = (counts / (counts + _K1 * (1 - _B + _B * length_ratio))) @ weights[rows]
    return scores.round(9)  # what is equal must not differ by how it was added up


def _count_ngrams(tokens: Sequence[str]) -> NgramCounts:
    """Count the n-grams of 1 to 3 words in a list of words."""
    return Counter(
        tuple(tokens[start : start + size])
        for size in range(1, _MAX_NGRAM + 1)
        for start in range(len(tokens) - size + 1)
    )
