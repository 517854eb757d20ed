"""Metrics of resampled examples: how sure a score of answers is, and whether other answers are better.

Drawing examples with replacement gives each of them a weight, how often it was drawn. Every metric here is a function
of those weights, so that a thousand draws cost little more than one; with all weights 1 it is what `classes`,
`correlation`, `entities` and `answers` compute. The test is that of `bootstrap` (Koehn 2004).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.metrics.bootstrap import Array, Comparison, Interval, check_options, compare, interval

_BLOCK = 1 << 21
"""Weights that are held at a time."""


class Weighted(ABC):
    """A metric of some answers, for any weights of the examples."""

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
class Ratio(Weighted):
    """One sum over examples divided by another; 0 where the second is 0. Means, precision, recall and F1 are such."""

    above: Float[np.ndarray, " N"]
    below: Float[np.ndarray, " N"]

    @property
    def examples(self) -> int:
        """One for each number."""
        return len(self.above)

    def scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """The quotients."""
        return _divided(weights @ self.above, weights @ self.below)


@final
@dataclass(frozen=True)
class Mean(Weighted):
    """The mean of several metrics of the same examples, such as macro F1."""

    parts: tuple[Weighted, ...]

    @property
    def examples(self) -> int:
        """Those of each part."""
        return self.parts[0].examples

    def scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """The means."""
        return np.asarray(np.mean([part.scores(weights) for part in self.parts], axis=0))


@final
class Matthews(Weighted):
    """`classes.matthews`: R_K from the numbers of right answers, and of each class on either side."""

    def __init__(self, predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> None:
        names = dict.fromkeys((*gold, *predicted))
        self._right = hits(predicted, gold)
        self._predicted, self._gold = (
            np.array([[label == name for name in names] for label in side], dtype=np.float64)
            for side in (predicted, gold)
        )

    @property
    def examples(self) -> int:
        """One for each answer."""
        return len(self._right)

    def scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """(c s - sum p_k t_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2))."""
        total, right = weights.sum(1), weights @ self._right
        guesses, golds = weights @ self._predicted, weights @ self._gold
        above = right * total - (guesses * golds).sum(1)
        below = (total**2 - (guesses**2).sum(1)) * (total**2 - (golds**2).sum(1))
        return _divided(above, np.sqrt(below))


@final
@dataclass(frozen=True)
class Correlation(Weighted):
    """`correlation.pearson`, or with `ranked` `correlation.spearman`."""

    predicted: Float[np.ndarray, " N"]
    gold: Float[np.ndarray, " N"]
    ranked: bool = False

    @property
    def examples(self) -> int:
        """One for each number."""
        return len(self.gold)

    def scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Covariances over standard deviations; 0 where a side is constant among what was drawn."""
        x, y = (self._side(values, weights) for values in (self.predicted, self.gold))
        varies = _varies(x, weights) & _varies(y, weights)
        x, y = (side - ((weights * side).sum(1) / weights.sum(1))[:, None] for side in (x, y))
        below = np.sqrt((weights * x**2).sum(1) * (weights * y**2).sum(1))
        return np.clip(_divided((weights * x * y).sum(1), np.where(varies, below, 0)), -1, 1)

    def _side(self, values: Array, weights: Array) -> Array:
        if not self.ranked:
            # near 1, so that squares neither overflow nor vanish
            return np.broadcast_to(values / (np.abs(values).max() or 1), weights.shape)
        _, which = np.unique(values, return_inverse=True)
        order = np.argsort(which, kind="stable")
        begins = np.flatnonzero(np.diff(which[order], prepend=-1))
        counts = np.add.reduceat(weights[:, order], begins, axis=1)
        ranks: Array = (counts.cumsum(1) - (counts - 1) / 2)[:, which]
        return ranks


def hits(predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> Float[np.ndarray, " N"]:
    """1 where a prediction equals its gold value, else 0."""
    return np.array([p == g for p, g in zip(predicted, gold, strict=True)], dtype=np.float64)


def mean(values: Sequence[float] | Float[np.ndarray, " N"]) -> Ratio:
    """The mean of a number that each example has; accuracy is that of `hits`."""
    return Ratio(np.asarray(values, dtype=np.float64), np.ones(len(values)))


def f1(predicted: Sequence[Hashable], gold: Sequence[Hashable], *, positive: Hashable) -> Ratio:
    """F1 of one class: twice the hits over all that were predicted and all that are there."""
    said, there = (np.array([label == positive for label in side], dtype=np.float64) for side in (predicted, gold))
    return Ratio(2 * said * there, said + there)


def grouped(metric: Ratio, groups: Sequence[Hashable]) -> Ratio:
    """The same metric where not single examples but groups of them are drawn, in the order of their first members."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    which = np.array([numbers[group] for group in groups])
    above, below = (np.bincount(which, side, minlength=len(numbers)) for side in (metric.above, metric.below))
    return Ratio(above, below)


def intervals(
    metrics: Mapping[str, Weighted], *, samples: int = 1000, seed: int = 0, confidence: float = 0.95
) -> tuple[Interval, ...]:
    """One interval for each metric, from examples drawn with replacement.

    Raises:
        DataError: no examples.
        RecipeError: fewer than 2 samples, or a confidence outside (0, 1).
    """
    check_options(samples, confidence)
    drawn = _resampled([metrics], samples, seed)[0]
    return tuple(interval(name, scores, confidence) for name, scores in drawn.items())


def comparisons(
    first: Mapping[str, Weighted],
    second: Mapping[str, Weighted],
    *,
    samples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[Comparison, ...]:
    """Whether two systems that answered the same examples differ under each metric by more than chance.

    See `bootstrap.paired_bootstrap`.

    Raises:
        DataError: no examples, or not the same number for both.
        RecipeError: fewer than 2 samples, or a confidence outside (0, 1).
    """
    check_options(samples, confidence)
    one, two = _resampled([first, second], samples, seed)
    return tuple(compare(name, one[name], two[name], confidence) for name in first)


def _resampled(systems: Sequence[Mapping[str, Weighted]], samples: int, seed: int) -> list[dict[str, Array]]:
    """The scores of each system: of the examples themselves, then of draws that are alike for all."""
    sizes = {metric.examples for system in systems for metric in system.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise DataError(f"metrics of {sorted(sizes)} examples: they must be of the same ones, at least of one")
    (size,) = sizes
    parts: list[list[dict[str, Array]]] = [[] for _ in systems]
    for weights in _draws(size, samples, seed):
        for found, system in zip(parts, systems, strict=True):
            found.append({name: metric.scores(weights) for name, metric in system.items()})
    return [
        {name: np.concatenate([block[name] for block in found]) for name in system}
        for found, system in zip(parts, systems, strict=True)
    ]


def _draws(size: int, samples: int, seed: int) -> Iterator[Array]:
    """Weights in blocks; the first row is all examples once."""
    rng = np.random.default_rng(seed)
    rows = max(1, _BLOCK // size)
    yield np.ones((1, size))
    for start in range(0, samples, rows):
        count = min(rows, samples - start)
        yield np.array(
            [np.bincount(rng.integers(size, size=size), minlength=size) for _ in range(count)], dtype=np.float64
        )


def _divided(above: Array, below: Array) -> Array:
    found: Array = np.where(below > 0, above / np.where(below > 0, below, 1), 0.0)
    return found


def _varies(values: Array, weights: Array) -> np.ndarray:
    """Whether what has weight is not all the same."""
    there = weights > 0
    varies: np.ndarray = np.where(there, values, -np.inf).max(1) > np.where(there, values, np.inf).min(1)
    return varies
