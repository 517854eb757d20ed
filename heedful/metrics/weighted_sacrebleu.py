"""BLEU, chrF and TER as metrics of weighted sentences, with the values of sacrebleu in percent.

sacrebleu itself computes the reported scores and signatures. These classes count each sentence once, so that a thousand
resampled corpora are scored as one matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from string import punctuation
from typing import Final, final

import numpy as np
from jaxtyping import Float

from heedful.metrics.metric import SummedCountsMetric
from heedful.metrics.translation import build_bleu_metric, check_pairs

CountMatrix = Float[np.ndarray, "N counts"]
SumMatrix = Float[np.ndarray, "samples counts"]
ScoreVector = Float[np.ndarray, " samples"]
CHRF_ORDER: Final = 6
"""Characters in the longest n-grams of chrF."""
CHRF_BETA: Final = 2
"""Weight of recall relative to precision in chrF."""


class PairMetric(SummedCountsMetric):
    """Abstract base of metrics from counts of hypotheses with one reference each.

    Raises:
        DataError: no sentences, or not as many hypotheses as references.
    """

    def __init__(self, hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> None:
        check_pairs(hypotheses, references)
        self.lowercase = lowercase
        self.pairs = list(zip(hypotheses, references, strict=True))


@final
class CorpusBLEU(PairMetric):
    """sacrebleu's BLEU with exponential smoothing, from lengths, matches and totals of 1- to 4-grams."""

    def __init__(
        self, hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str = "13a"
    ) -> None:
        super().__init__(hypotheses, references, lowercase=lowercase)
        self._metric = build_bleu_metric(lowercase=lowercase, tokenize=tokenize)

    @cached_property
    def counts(self) -> CountMatrix:
        """Lengths of hypothesis and reference, four counts of matches, four of n-grams."""
        scores = (self._metric.corpus_score([h], [[r]]) for h, r in self.pairs)
        return np.array([[s.sys_len, s.ref_len, *s.counts, *s.totals] for s in scores], dtype=np.float64)

    def score_sums(self, sums: SumMatrix) -> ScoreVector:
        """Return exp(min(0, 1 - r/c)) times the geometric mean; the k-th order without a match counts 2^-k of one."""
        length, reference_length = sums[:, 0], sums[:, 1]
        matches, totals = sums[:, 2:6], sums[:, 6:10]
        smoothed = np.where(matches == 0, 0.5 ** np.cumsum(matches == 0, axis=1), matches)
        logs = np.log(smoothed / np.maximum(totals, 1)).mean(1)
        penalty = np.minimum(0, 1 - reference_length / np.maximum(length, 1))
        is_defined = (totals.min(1) > 0) & (matches.sum(1) > 0)
        return np.where(is_defined, 100 * np.exp(penalty + logs), 0.0)


@final
class CorpusChrF(PairMetric):
    """sacrebleu's chrF2, from counts of n-grams of 1 to 6 characters and up to `word_order` words.

    With two words this is chrF++ (Popović 2017).
    """

    def __init__(
        self, hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, word_order: int = 0
    ) -> None:
        super().__init__(hypotheses, references, lowercase=lowercase)
        self.word_order = word_order

    @cached_property
    def counts(self) -> CountMatrix:
        """Three counts for each order (hypothesis, reference, matches), those of words last; spaces do not count."""
        folded = [(h.lower(), r.lower()) if self.lowercase else (h, r) for h, r in self.pairs]
        return np.array([self._count_orders(*pair) for pair in folded], dtype=np.float64)

    def _count_orders(self, hypothesis: str, reference: str) -> list[int]:
        letters = "".join(hypothesis.split()), "".join(reference.split())
        orders = [_count_ngrams(letters[0], letters[1], n) for n in range(1, CHRF_ORDER + 1)]
        if self.word_order:
            words = _split_punctuation(hypothesis), _split_punctuation(reference)
            orders += [_count_ngrams(words[0], words[1], n) for n in range(1, self.word_order + 1)]
        return [count for order in orders for count in order]

    def score_sums(self, sums: SumMatrix) -> ScoreVector:
        """Return F2 of precision and recall, averaged over the orders that both sides have."""
        by_order = sums.reshape(len(sums), CHRF_ORDER + self.word_order, 3)
        hypothesis_totals, reference_totals, matches = by_order.transpose(2, 0, 1)
        have_ngrams = (hypothesis_totals > 0) & (reference_totals > 0)
        orders = np.maximum(have_ngrams.sum(1), 1)
        precision = np.where(have_ngrams, matches / np.maximum(hypothesis_totals, 1), 0).sum(1) / orders
        recall = np.where(have_ngrams, matches / np.maximum(reference_totals, 1), 0).sum(1) / orders
        weight = CHRF_BETA**2
        divisor = weight * precision + recall
        scores: ScoreVector = 100 * (1 + weight) * precision * recall / np.where(divisor > 0, divisor, 1)
        return scores


@final
class CorpusTER(PairMetric):
    """sacrebleu's TER, from edits and reference words."""

    @cached_property
    def counts(self) -> CountMatrix:
        """Edits, and words of the reference."""
        from sacrebleu.metrics.ter import TER

        metric = TER(case_sensitive=not self.lowercase)
        scores = (metric.corpus_score([h], [[r]]) for h, r in self.pairs)
        return np.array([[s.num_edits, s.ref_length] for s in scores], dtype=np.float64)

    def score_sums(self, sums: SumMatrix) -> ScoreVector:
        """Return the edits per 100 words; 100 with edits but no words, as in sacrebleu."""
        edits, words = sums.T
        return np.where(words > 0, 100 * edits / np.maximum(words, 1), np.where(edits > 0, 100.0, 0.0))


def _count_ngrams(hypothesis: Sequence[str], reference: Sequence[str], n: int) -> tuple[int, int, int]:
    """Return the number of n-grams of hypothesis and reference, and of both."""
    sides = (hypothesis, reference)
    hypothesis_counts, reference_counts = (Counter(tuple(s[i : i + n]) for i in range(len(s) - n + 1)) for s in sides)
    # sacrebleu does not count a hypothesis against a reference that is too short to have any
    return (
        hypothesis_counts.total() if reference_counts else 0,
        reference_counts.total(),
        (hypothesis_counts & reference_counts).total(),
    )


def _split_punctuation(sentence: str) -> list[str]:
    """Split a sentence into words, with a final ASCII punctuation mark (or else an initial one) as a word of its
    own.
    """
    words = []
    for word in sentence.split():
        if len(word) > 1 and word[-1] in punctuation:
            words += [word[:-1], word[-1]]
        elif len(word) > 1 and word[0] in punctuation:
            words += [word[0], word[1:]]
        else:
            words.append(word)
    return words
