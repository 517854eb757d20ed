"""BLEU, chrF and TER of sacrebleu as metrics of weighted sentences, in percent.

Each sentence is counted once, so that a thousand resampled corpora need only sums of these counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float

from heedful.metrics.metric import SummedCountsMetric
from heedful.metrics.translation import build_bleu_metric, check_pairs

if TYPE_CHECKING:  # imported late, because translation alone does not need it
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
        """Return the score of each corpus."""
        return np.array([self.metric._compute_score_from_stats(row).score for row in sums.tolist()])


@final
class CorpusBLEU(SacreBLEUMetric):
    """BLEU with exponential smoothing, from lengths, matches and totals of 1- to 4-grams.

    Raises:
        DataError: no sentences, or not as many hypotheses as references.
    """

    def __init__(
        self, hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str = "13a"
    ) -> None:
        self.examples = _pair_texts(hypotheses, references)
        self.metric = build_bleu_metric(lowercase=lowercase, tokenize=tokenize)


@final
class CorpusChrF(SacreBLEUMetric):
    """chrF2, from counts of n-grams of 1 to 6 characters and up to `word_order` words; raises as `CorpusBLEU`.

    With two words this is chrF++ (Popović 2017).
    """

    def __init__(
        self, hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, word_order: int = 0
    ) -> None:
        from sacrebleu.metrics.chrf import CHRF

        self.examples = _pair_texts(hypotheses, references)
        self.metric = CHRF(lowercase=lowercase, word_order=word_order)


@final
class CorpusTER(SacreBLEUMetric):
    """TER, from edits and reference words; raises as `CorpusBLEU`."""

    def __init__(self, hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> None:
        from sacrebleu.metrics.ter import TER

        self.examples = _pair_texts(hypotheses, references)
        self.metric = TER(case_sensitive=not lowercase)


def _pair_texts(hypotheses: Sequence[str], references: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    check_pairs(hypotheses, references)
    return [(hypothesis, [reference]) for hypothesis, reference in zip(hypotheses, references, strict=True)]
