"""How well predicted numbers go with gold numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError


def pearson(predicted: Sequence[float], gold: Sequence[float]) -> float:
    """Pearson's r, the covariance over both standard deviations; 0 where either side is constant.

    Raises:
        DataError: fewer than two numbers, not as many predictions, or numbers that are not finite.
    """
    return _correlation(_numbers(predicted, gold), _numbers(gold, predicted))


def spearman(predicted: Sequence[float], gold: Sequence[float]) -> float:
    """Spearman's rho: Pearson's r of the ranks, where equal numbers share the mean of theirs; 0 as for `pearson`.

    Raises:
        DataError: fewer than two numbers, not as many predictions, or numbers that are not finite.
    """
    return _correlation(ranks(_numbers(predicted, gold)), ranks(_numbers(gold, predicted)))


def ranks(values: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """The place of each value in ascending order, from 1; equal values share the mean of their places."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: Float[np.ndarray, " distinct"] = last - (counts - 1) / 2
    return np.asarray(means[which], dtype=np.float64)


def _numbers(values: Sequence[float], others: Sequence[float]) -> Float[np.ndarray, " N"]:
    if len(values) != len(others):
        raise DataError(f"{len(values):,} numbers against {len(others):,}: each needs its own")
    if len(values) < 2:
        raise DataError("a correlation needs at least two numbers on each side")
    for place, value in enumerate(values):
        if not isfinite(value):
            raise DataError(f"number {place + 1} is {value}; a correlation needs finite numbers")
    return np.asarray(values, dtype=np.float64)


def _correlation(x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"]) -> float:
    # The same number many times over may differ from its mean by rounding, which would be all of the variance.
    if (x == x[0]).all() or (y == y[0]).all():
        return 0.0
    # A scale that brings both near 1, so that squares neither overflow nor vanish.
    x, y = (side - side.mean() for side in (x / np.abs(x).max(), y / np.abs(y).max()))
    below = sqrt(float(x @ x)) * sqrt(float(y @ y))
    return max(-1.0, min(1.0, float(x @ y) / below)) if below else 0.0
