"""BLEU, chrF and TER as metrics of weighted sentences, the lecture's variant of BLEU, and utilities of all pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Final, final

import numpy as np
from jaxtyping import Float

from heedful.metrics.metric import SummedCountsMetric
from heedful.metrics.translation import (
    MetricScore,
    References,
    build_bleu_metric,
    check_pairs,
    list_references,
    select_bleu_tokenizer,
)

if TYPE_CHECKING:
    import sacrebleu.metrics.base


CountMatrix = Float[np.ndarray, "N counts"]
SumMatrix = Float[np.ndarray, "samples counts"]
ScoreVector = Float[np.ndarray, " samples"]


class SacreBLEUMetric(SummedCountsMetric):
    """Abstract base of metrics that sacrebleu counts and computes, with the statistics of its own paired tests.

    Attributes:
        metric: of sacrebleu.
        examples: each hypothesis with its references.
    """

    metric: sacrebleu.metrics.base.Metric
    examples: Sequence[tuple[str, Sequence[str]]]

    @cached_property
    def counts(self) -> CountMatrix:
        """The statistics of each sentence, of which a corpus has the sums."""
        # one by one, because sacrebleu warns of many sentences that end like tokenized ones
        rows = [self.metric._extract_corpus_statistics([h], [[r] for r in refs])[0] for h, refs in self.examples]
        return np.array(rows, dtype=np.float64)

    def score_sums(self, sums: SumMatrix) -> ScoreVector:
        """Return sacrebleu's score for each row of `sums`, the statistics summed over the sentences of one corpus."""
        return np.array([self.metric._compute_score_from_stats(row).score for row in sums.tolist()])


@final
class CorpusBLEU(SacreBLEUMetric):
    """BLEU with exponential smoothing, from lengths, matches and totals of 1- to 4-grams.

    Raises:
        DataError: no sentences, or not as many hypotheses as references.
    """

    def __init__(
        self, hypotheses: Sequence[str], references: References, *, lowercase: bool = False, tokenize: str = "13a"
    ) -> None:
        self.examples = _pair_texts(hypotheses, references)
        self.metric = build_bleu_metric(lowercase=lowercase, tokenize=tokenize)


@final
class CorpusChrF(SacreBLEUMetric):
    """chrF2, from counts of n-grams of 1 to 6 characters and up to `word_order` words; raises as `CorpusBLEU`.

    With two words this is chrF++ (Popović 2017).
    """

    def __init__(
        self, hypotheses: Sequence[str], references: References, *, lowercase: bool = False, word_order: int = 0
    ) -> None:
        from sacrebleu.metrics.chrf import CHRF

        self.examples = _pair_texts(hypotheses, references)
        self.metric = CHRF(lowercase=lowercase, word_order=word_order)


@final
class CorpusTER(SacreBLEUMetric):
    """TER, from edits and reference words; raises as `CorpusBLEU`."""

    def __init__(self, hypotheses: Sequence[str], references: References, *, lowercase: bool = False) -> None:
        from sacrebleu.metrics.ter import TER

        self.examples = _pair_texts(hypotheses, references)
        self.metric = TER(case_sensitive=not lowercase)


def _pair_texts(hypotheses: Sequence[str], references: References) -> list[tuple[str, Sequence[str]]]:
    """Return each hypothesis with its references; raise `DataError` as `check_pairs`."""
    check_pairs(hypotheses, references)
    return list(zip(hypotheses, list_references(references), strict=True))


_DECK_ORDERS = (1, 2, 3, 4)


@final
class DeckBLEU(SummedCountsMetric):
    """The lecture's variant of BLEU in percent, as a metric of weighted sentences; of several references, each
    sentence is compared with the one that gives it the highest precision.

    Raises:
        DataError: no sentences, or not as many hypotheses as references.
    """

    def __init__(self, hypotheses: Sequence[str], references: References, *, lowercase: bool = False) -> None:
        check_pairs(hypotheses, references)
        fold = str.lower if lowercase else str
        self.words = [
            (fold(hypothesis).split(), [fold(text).split() for text in texts])
            for hypothesis, texts in zip(hypotheses, list_references(references), strict=True)
        ]

    @cached_property
    def counts(self) -> CountMatrix:
        """For each sentence the geometric mean of its precisions, 1, and the lengths of hypothesis and reference."""
        rows = []
        for hypothesis, references in self.words:
            precisions = [_score_sentence(hypothesis, reference) for reference in references]
            best = precisions.index(max(precisions))
            rows.append([precisions[best], 1, len(hypothesis), len(references[best])])
        return np.array(rows, dtype=np.float64)

    def score_sums(self, sums: SumMatrix) -> ScoreVector:
        """Return the mean of the precisions times the length factor, in percent, for each row of summed counts."""
        precisions, sentences, hypothesis_length, reference_length = sums.T
        factor = np.where(reference_length > 0, np.minimum(1, hypothesis_length / np.maximum(reference_length, 1)), 1.0)
        scores: ScoreVector = 100 * factor * (precisions / sentences)
        return scores


def deck_bleu(hypotheses: Sequence[str], references: References, *, lowercase: bool = False) -> MetricScore:
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
    """Return the geometric mean of the precisions of 1- to 4-grams, which are not clipped."""
    return prod(_compute_precision(hypothesis, reference, n) for n in _DECK_ORDERS) ** (1 / len(_DECK_ORDERS))


def _compute_precision(hypothesis: list[str], reference: list[str], n: int) -> float:
    """Return the share of the hypothesis n-grams that occur in the reference; 0 if there are none."""
    hypothesis_ngrams, reference_ngrams = (
        [tuple(words[i : i + n]) for i in range(len(words) - n + 1)] for words in (hypothesis, reference)
    )
    reference_set = set(reference_ngrams)
    return (
        sum(gram in reference_set for gram in hypothesis_ngrams) / len(hypothesis_ngrams) if hypothesis_ngrams else 0.0
    )


_ORDER: Final = 6
_BETA: Final = 2


class PairwiseUtility(ABC):
    """Abstract base of metrics that compare all pairs of a few texts, in percent."""

    @abstractmethod
    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
        """Return the score of each text (row) against each as reference (column)."""


@final
class ChrFUtility(PairwiseUtility):
    """Sentence-level chrF2 (Popović 2015) as in sacrebleu: n-grams of 1 to 6 characters without spaces.

    The n-grams of each text are counted once for all comparisons.
    """

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
        """Return chrF of each text (row) against each as reference (column). Precision and recall are averaged over the
        orders for which both texts have n-grams; without any, the score is 0.
        """
        unspaced = ["".join(text.split()) for text in texts]
        precisions, recalls = np.zeros((2, len(texts), len(texts)))
        orders = np.zeros((len(texts), len(texts)), dtype=np.int64)
        for n in range(1, _ORDER + 1):
            counts = _build_count_matrix(
                [Counter(text[start : start + n] for start in range(len(text) - n + 1)) for text in unspaced]
            )
            sizes = counts.sum(1)
            matches = np.stack([np.minimum(row, counts).sum(1) for row in counts])
            have_ngrams = (sizes[:, None] > 0) & (sizes > 0)
            precisions += np.divide(matches, sizes[:, None], out=np.zeros(have_ngrams.shape), where=have_ngrams)
            recalls += np.divide(matches, sizes, out=np.zeros(have_ngrams.shape), where=have_ngrams)
            orders += have_ngrams
        num_orders = np.maximum(orders, 1)
        precision, recall = precisions / num_orders, recalls / num_orders
        denominator = _BETA**2 * precision + recall
        numerator = (1 + _BETA**2) * precision * recall
        return 100 * np.divide(numerator, denominator, out=np.zeros(denominator.shape), where=denominator > 0)


@final
class SentenceBLEUUtility(PairwiseUtility):
    """sacrebleu's sentence BLEU over the available orders; computed pair by pair, so slower than chrF."""

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
        """Return smoothed BLEU of each text (row) against each as reference (column), with the tokenizer that suits the
        language.
        """
        from sacrebleu.metrics.bleu import BLEU

        metric = BLEU(effective_order=True, tokenize=select_bleu_tokenizer(texts))
        return np.array(
            [[metric.sentence_score(hypothesis, [reference]).score for reference in texts] for hypothesis in texts]
        )


def _build_count_matrix(counters: Sequence[Counter[str]]) -> Float[np.ndarray, "N G"]:
    """Return counts with a row for each counter and a column for each n-gram."""
    columns = {
        gram: column for column, gram in enumerate(dict.fromkeys(gram for ngrams in counters for gram in ngrams))
    }
    counts = np.zeros((len(counters), len(columns)))
    for row, counter in enumerate(counters):
        counts[row, [columns[gram] for gram in counter]] = list(counter.values())
    return counts
