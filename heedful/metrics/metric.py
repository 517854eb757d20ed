"""Metrics as functions of example weights.

Resampling with replacement gives each example a weight: how often it was drawn. With all weights 1 a metric is the
reported number. So value, interval and test come from one function, and a thousand samples cost little more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]


class Metric(ABC):
    """Abstract base of metrics that can be computed for any weights of the examples."""

    @property
    @abstractmethod
    def num_examples(self) -> int:
        """Number of examples."""

    @abstractmethod
    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Return the metric for each row of weights, which are non-negative integers with a positive sum."""

    @property
    @final
    def value(self) -> float:
        """The metric with each example counted once."""
        return float(self.compute_scores(np.ones((1, self.num_examples)))[0])


@final
@dataclass(frozen=True)
class RatioMetric(Metric):
    """One sum over examples divided by another, such as a mean, precision, recall or F1; 0 if the divisor is 0."""

    numerators: Float[np.ndarray, " N"]
    denominators: Float[np.ndarray, " N"]

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self.numerators)

    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Return the ratio for each row of weights."""
        return safe_divide(weights @ self.numerators, weights @ self.denominators)


@final
@dataclass(frozen=True)
class MeanMetric(Metric):
    """Mean of several metrics of the same examples, such as macro F1."""

    parts: tuple[Metric, ...]

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return self.parts[0].num_examples

    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Return the mean for each row of weights."""
        return np.asarray(np.mean([part.compute_scores(weights) for part in self.parts], axis=0))


class SummedCountsMetric(Metric):
    """Abstract base of metrics computed from counts summed over examples, such as BLEU."""

    @cached_property
    @abstractmethod
    def counts(self) -> Float[np.ndarray, "N counts"]:
        """What each example adds to the sums."""

    @abstractmethod
    def score_sums(self, sums: Float[np.ndarray, "samples counts"]) -> Float[np.ndarray, " samples"]:
        """Return the metric for each row of summed counts."""

    @property
    @final
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self.counts)

    @final
    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Return the metric for each row of weights."""
        return self.score_sums(weights @ self.counts)


def build_mean_metric(values: Sequence[float] | Float[np.ndarray, " N"]) -> RatioMetric:
    """Return the mean of one number per example as a metric."""
    return RatioMetric(np.asarray(values, dtype=np.float64), np.ones(len(values)))


def group_metric(metric: RatioMetric, groups: Sequence[Hashable]) -> RatioMetric:
    """Return the metric with groups of examples as its units, in the order of their first members."""
    group_numbers = {group: index for index, group in enumerate(dict.fromkeys(groups))}
    group_of_example = np.array([group_numbers[group] for group in groups])
    numerators, denominators = (
        np.bincount(group_of_example, values, minlength=len(group_numbers))
        for values in (metric.numerators, metric.denominators)
    )
    return RatioMetric(numerators, denominators)


def safe_divide(numerators: Float[np.ndarray, ...], denominators: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
    """Divide elementwise; 0 where the divisor is not positive."""
    is_positive: Bool[np.ndarray, ...] = denominators > 0
    return np.where(is_positive, numerators / np.where(is_positive, denominators, 1), 0.0)
