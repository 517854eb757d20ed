"""Learned metrics: models that score translations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from heedful.metrics.metric import Metric, build_mean_metric


@final
@dataclass(frozen=True)
class JudgeScores:
    """Scores of some translations by a learned metric.

    Attributes:
        scores: of each, on the model's own scale.
        num_truncated: number of translations that were truncated, or whose references were.
    """

    scores: tuple[float, ...]
    num_truncated: int = 0

    @property
    def metric(self) -> Metric:
        """The mean score as a metric."""
        return build_mean_metric(self.scores)


class TranslationJudge(ABC):
    """Abstract base of learned metrics; better translations get higher scores.

    Attributes:
        name: of the model.
        signature: everything needed to get the same numbers again.
    """

    name: str
    signature: str

    @property
    @final
    def metric_name(self) -> str:
        """Name of the metric, which is unique."""
        return f"judge: {self.name}"

    @abstractmethod
    def score_translations(
        self, *, sources: Sequence[str], candidates: Sequence[str], references: Sequence[str]
    ) -> JudgeScores:
        """Return one score for each candidate.

        Args:
            sources: the source sentences.
            candidates: a translation of each.
            references: a reference translation of each.

        Raises:
            RunError: the model returns a value that is not a number.
        """
