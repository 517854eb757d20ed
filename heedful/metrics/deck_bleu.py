"""BLEU as the lecture deck defines it ("Training and Validation Criteria for Machine Translation"): a variant.

BLEU = min(1, sum len(S) / sum len(S0)) * mean over (S0, S) of (prod_{n=1..4} p_n)^(1/4) p_n = #(n-grams of S that occur
in S0) / #(n-grams of S)

Differences from corpus BLEU (Papineni et al. 2002), which `heedful.metrics.translation.bleu` computes:

- sentence scores are averaged instead of adding up counts over the corpus, and without a matching 4-gram a score is 0;
- n-grams are not clipped: "the the the the" is perfect in 1-grams against any reference with a "the";
- short output is penalised in proportion, not exponentially.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import final

import numpy as np

from heedful.metrics.metric import SummedCountsMetric
from heedful.metrics.translation import MetricScore, check_pairs
from heedful.metrics.weighted_sacrebleu import CountMatrix, ScoreVector, SumMatrix

_DECK_ORDERS = (1, 2, 3, 4)


@final
class DeckBLEU(SummedCountsMetric):
    """The lecture's variant of BLEU in percent, as a metric of weighted sentences.

    Raises:
        DataError: no sentences, or not as many hypotheses as references.
    """

    def __init__(self, hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> None:
        check_pairs(hypotheses, references)
        fold = str.lower if lowercase else str
        self.words = [(fold(h).split(), fold(r).split()) for h, r in zip(hypotheses, references, strict=True)]

    @cached_property
    def counts(self) -> CountMatrix:
        """For each sentence the geometric mean of its precisions, 1, and the lengths of hypothesis and reference."""
        return np.array([[_score_sentence(h, r), 1, len(h), len(r)] for h, r in self.words], dtype=np.float64)

    def score_sums(self, sums: SumMatrix) -> ScoreVector:
        """Return the mean of the precisions times the length factor."""
        precisions, sentences, hypothesis_length, reference_length = sums.T
        factor = np.where(reference_length > 0, np.minimum(1, hypothesis_length / np.maximum(reference_length, 1)), 1.0)
        scores: ScoreVector = 100 * factor * (precisions / sentences)
        return scores


def deck_bleu(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> MetricScore:
    """Compute the lecture's variant of BLEU in percent, over words between spaces; not comparable with published BLEU.

    A hypothesis of fewer than four words has no 4-grams. The deck's fraction is then 0/0; it counts as 0, so even a
    perfect translation of three words scores 0.

    Raises:
        DataError: no sentences, or not as many hypotheses as references.
    """
    metric = DeckBLEU(hypotheses, references, lowercase=lowercase)
    sums = metric.counts.sum(0)
    precision, sentences, *lengths = sums.tolist()
    parts = {
        "mean_precision": 100 * precision / sentences,
        "length_factor": min(1.0, lengths[0] / lengths[1]) if lengths[1] else 1.0,
        "hypothesis_length": lengths[0],
        "reference_length": lengths[1],
    }
    case = "lc" if lowercase else "mixed"
    signature = f"variant:deck|mean:sentences|clip:no|length:linear|case:{case}|tok:none|smooth:none"
    return MetricScore("BLEU (deck variant)", float(metric.score_sums(sums[None])[0]), signature, parts)


def _score_sentence(hypothesis: list[str], reference: list[str]) -> float:
    """Return the geometric mean of the four unclipped precisions."""
    return prod(_compute_precision(hypothesis, reference, n) for n in _DECK_ORDERS) ** (1 / len(_DECK_ORDERS))


def _compute_precision(hypothesis: list[str], reference: list[str], n: int) -> float:
    """Return the share of the hypothesis n-grams that occur in the reference."""
    hypothesis_ngrams, reference_ngrams = (
        [tuple(words[i : i + n]) for i in range(len(words) - n + 1)] for words in (hypothesis, reference)
    )
    reference_set = set(reference_ngrams)
    return (
        sum(gram in reference_set for gram in hypothesis_ngrams) / len(hypothesis_ngrams) if hypothesis_ngrams else 0.0
    )
