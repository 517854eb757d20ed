"""Learned metrics: what a model says that translations are worth, one number for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from heedful.metrics.metric import Metric, build_mean_metric


@final
@dataclass(frozen=True)
class JudgeScores:
    """What a judge says of some translations.

    Attributes:
        scores: of each, on the judge's own scale.
        num_truncated: of how many it did not read the end, or that of their references.
    """

    scores: tuple[float, ...]
    num_truncated: int = 0

    @property
    def metric(self) -> Metric:
        """The mean over the translations."""
        return build_mean_metric(self.scores)


class TranslationJudge(ABC):
    """A model that tells what translations are worth; a better one gets more.

    Attributes:
        name: of the model.
        signature: everything that somebody else needs to get the same numbers.
    """

    name: str
    signature: str

    @property
    @final
    def metric_name(self) -> str:
        """What its metric is called, which no other is."""
        return f"judge: {self.name}"

    @abstractmethod
    def score_translations(
        self, *, sources: Sequence[str], candidates: Sequence[str], references: Sequence[str]
    ) -> JudgeScores:
        """One number for each candidate.

        Args:
            sources: what was translated.
            candidates: a translation of each.
            references: a right translation of each.

        Raises:
            RunError: the model says what is no number.
        """
