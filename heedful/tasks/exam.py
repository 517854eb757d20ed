"""What trained models are asked, and what their answers are worth: the same questions for all of them.

An exam knows how to ask a classifier, a tagger or an answerer, what would be answered without reading, and each metric
twice: as the number that is reported, and for any weights of the examples, of which intervals and tests are made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from heedful.metrics.weighted import Weighted
from heedful.tasks.benchmarks.definitions import Prediction


class Exam(ABC):
    """Examples with right answers.

    Attributes:
        size: how many labels or answers are compared.
        total: how many examples there are to learn from.
        constant: what is right most often in the training text; empty for saying nothing, None where each example has
            candidates of its own.
        baseline: that answer to each example.
        main: the metric that is looked at first.
    """

    size: int
    total: int
    constant: Prediction | None
    baseline: Sequence[Any]
    main: str

    @property
    @abstractmethod
    def asked(self) -> Sequence[Hashable]:
        """The texts of each example."""

    @property
    @abstractmethod
    def right(self) -> Sequence[Hashable]:
        """What is right of each."""

    @abstractmethod
    def answers(self, user: object) -> Sequence[Any]:
        """What a trained model, as its users see it, says of each example."""

    @abstractmethod
    def measured(self, answers: Sequence[Any]) -> Mapping[str, float]:
        """The metrics of some answers, from 0 to 1 (correlations from -1)."""

    @abstractmethod
    def weighted(self, answers: Sequence[Any]) -> Mapping[str, Weighted]:
        """The same metrics for any weights of the examples, or of groups of examples that belong together."""
