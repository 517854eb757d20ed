"""Correlation of predicted and gold numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import final

import numpy as np
from jaxtyping import Bool, Float

from heedful.errors import DataError
from heedful.metrics.metric import Metric, safe_divide


@final
class CorrelationMetric(Metric):
    """Pearson's r, the covariance divided by both standard deviations; 0 if either side is constant.

    Args:
        predicted: a number for each example.
        gold: the gold numbers.
        use_ranks: compute Spearman's rho instead: r of the ranks, where equal numbers share their mean rank.

    Raises:
        DataError: fewer than two numbers, lists of different length, or numbers that are not finite.
    """

    def __init__(self, predicted: Sequence[float], gold: Sequence[float], *, use_ranks: bool = False) -> None:
        self._predicted, self._gold = _check_numbers(predicted, gold), _check_numbers(gold, predicted)
        self._use_ranks = use_ranks

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self._gold)

    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Return the correlation for each row of weights; 0 where a side is constant in the sample."""
        x, y = (self._transform_values(values, weights) for values in (self._predicted, self._gold))
        has_variation = _has_variation(x, weights) & _has_variation(y, weights)
        x, y = (side - ((weights * side).sum(1) / weights.sum(1))[:, None] for side in (x, y))
        denominator = np.sqrt((weights * x**2).sum(1) * (weights * y**2).sum(1))
        return np.asarray(
            np.clip(safe_divide((weights * x * y).sum(1), np.where(has_variation, denominator, 0)), -1, 1)
        )

    def _transform_values(
        self, values: Float[np.ndarray, " N"], weights: Float[np.ndarray, "samples N"]
    ) -> Float[np.ndarray, "samples N"]:
        """Return scaled values, or ranks within each weighted sample."""
        if not self._use_ranks:
            # near 1, so that squares neither overflow nor vanish
            return np.broadcast_to(values / (np.abs(values).max() or 1), weights.shape)
        _, value_index = np.unique(values, return_inverse=True)
        order = np.argsort(value_index, kind="stable")
        group_starts = np.flatnonzero(np.diff(value_index[order], prepend=-1))
        counts = np.add.reduceat(weights[:, order], group_starts, axis=1)
        ranks: Float[np.ndarray, "samples N"] = (counts.cumsum(1) - (counts - 1) / 2)[:, value_index]
        return ranks


def _check_numbers(values: Sequence[float], others: Sequence[float]) -> Float[np.ndarray, " N"]:
    """Convert numbers to an array; raises `DataError` if they are too few, not finite, or differ in length."""
    if len(values) != len(others):
        raise DataError(f"{len(values):,} numbers against {len(others):,}: each needs its own")
    if len(values) < 2:
        raise DataError("a correlation needs at least two numbers on each side")
    for index, value in enumerate(values):
        if not isfinite(value):
            raise DataError(f"number {index + 1} is {value}; a correlation needs finite numbers")
    return np.asarray(values, dtype=np.float64)


def _has_variation(
    values: Float[np.ndarray, "samples N"], weights: Float[np.ndarray, "samples N"]
) -> Bool[np.ndarray, " samples"]:
    """Return whether the values with positive weight differ."""
    has_weight = weights > 0
    differs: Bool[np.ndarray, " samples"] = np.where(has_weight, values, -np.inf).max(1) > np.where(
        has_weight, values, np.inf
    ).min(1)
    return differs
