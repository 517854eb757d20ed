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
    from sacrebleu.metrics.base import Metric as SacreBLEUMetric

CountMatrix = Float[np.ndarray, "N counts"]
SumMatrix = Float[np.ndarray, "samples counts"]
ScoreVector = Float[np.ndarray, " samples"]


class PairMetric(SummedCountsMetric):
    """Abstract base of metrics from counts of hypotheses with one reference each.

    Raises:
        DataError: no sentences, or not as many hypotheses as references.
    """

    def __init__(self, hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> None:
        check_pairs(hypotheses, references)
        self.lowercase = lowercase
        self.pairs = list(zip(hypotheses, references, strict=True))


class _SacreBLEUMetric(PairMetric):
    """Abstract base of metrics that sacrebleu counts and computes, with the statistics of its own paired tests."""

    _metric: SacreBLEUMetric

    @cached_property
    def counts(self) -> CountMatrix:
        """The statistics of each sentence, of which a corpus has the sums."""
        # one by one, because sacrebleu warns of many sentences that end like tokenized ones
        rows = [self._metric._extract_corpus_statistics([h], [[r]])[0] for h, r in self.pairs]
        return np.array(rows, dtype=np.float64)

    def score_sums(self, sums: SumMatrix) -> ScoreVector:
        """Return the score of each corpus."""
        return np.array([self._metric._compute_score_from_stats(row).score for row in sums.tolist()])


@final
class CorpusBLEU(_SacreBLEUMetric):
    """BLEU with exponential smoothing, from lengths, matches and totals of 1- to 4-grams."""

    def __init__(
        self, hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str = "13a"
    ) -> None:
        super().__init__(hypotheses, references, lowercase=lowercase)
        self._metric = build_bleu_metric(lowercase=lowercase, tokenize=tokenize)


@final
class CorpusChrF(_SacreBLEUMetric):
    """chrF2, from counts of n-grams of 1 to 6 characters and up to `word_order` words.

    With two words this is chrF++ (Popović 2017).
    """

    def __init__(
        self, hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, word_order: int = 0
    ) -> None:
        from sacrebleu.metrics.chrf import CHRF

        super().__init__(hypotheses, references, lowercase=lowercase)
        self._metric = CHRF(lowercase=lowercase, word_order=word_order)


@final
class CorpusTER(_SacreBLEUMetric):
    """TER, from edits and reference words."""

    def __init__(self, hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> None:
        from sacrebleu.metrics.ter import TER

        super().__init__(hypotheses, references, lowercase=lowercase)
        self._metric = TER(case_sensitive=not lowercase)
