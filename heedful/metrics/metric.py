"""Metrics as functions of the weights of examples.

Drawing examples with replacement gives each of them a weight, how often it was drawn. With all weights 1 a metric is
the number that is reported. So value, interval and test come of one function, and a thousand draws cost little more.
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

Array: TypeAlias = NDArray[np.float64]


class Metric(ABC):
    """What some answers are worth, for any weights of the examples."""

    @property
    @abstractmethod
    def examples(self) -> int:
        """How many are weighed."""

    @abstractmethod
    def scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """The metric of each row of weights, which are whole numbers from 0 with a positive sum."""

    @property
    @final
    def value(self) -> float:
        """The metric where each example counts once."""
        return float(self.scores(np.ones((1, self.examples)))[0])


@final
@dataclass(frozen=True)
class Ratio(Metric):
    """One sum over examples divided by another; 0 where the second is 0. Means, precision, recall and F1 are such."""

    above: Float[np.ndarray, " N"]
    below: Float[np.ndarray, " N"]

    @property
    def examples(self) -> int:
        """One for each number."""
        return len(self.above)

    def scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """The quotients."""
        return divided(weights @ self.above, weights @ self.below)


@final
@dataclass(frozen=True)
class Mean(Metric):
    """The mean of several metrics of the same examples, such as macro F1."""

    parts: tuple[Metric, ...]

    @property
    def examples(self) -> int:
        """Those of each part."""
        return self.parts[0].examples

    def scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """The means."""
        return np.asarray(np.mean([part.scores(weights) for part in self.parts], axis=0))


class Summed(Metric):
    """A function of counts that are added up over examples, such as BLEU."""

    @cached_property
    @abstractmethod
    def counts(self) -> Float[np.ndarray, "N counts"]:
        """What each example adds to the sums."""

    @abstractmethod
    def score(self, sums: Float[np.ndarray, "samples counts"]) -> Float[np.ndarray, " samples"]:
        """The metric of examples with these sums."""

    @property
    @final
    def examples(self) -> int:
        """One for each row of counts."""
        return len(self.counts)

    @final
    def scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Of the weighted sums."""
        return self.score(weights @ self.counts)


def mean(values: Sequence[float] | Float[np.ndarray, " N"]) -> Ratio:
    """The mean of a number that each example has."""
    return Ratio(np.asarray(values, dtype=np.float64), np.ones(len(values)))


def grouped(metric: Ratio, groups: Sequence[Hashable]) -> Ratio:
    """The same metric where not single examples but groups of them are drawn, in the order of their first members."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    which = np.array([numbers[group] for group in groups])
    above, below = (np.bincount(which, side, minlength=len(numbers)) for side in (metric.above, metric.below))
    return Ratio(above, below)


def divided(above: Float[np.ndarray, ...], below: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
    """Quotients, 0 where the divisor is not positive."""
    possible: Bool[np.ndarray, ...] = below > 0
    return np.where(possible, above / np.where(possible, below, 1), 0.0)
