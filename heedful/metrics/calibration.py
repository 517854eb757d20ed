"""Calibrate model scores with a monotone curve that is fitted to examples."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from heedful.errors import DataError


@dataclass(frozen=True)
class MonotoneCurve:
    """Piecewise linear curve that never falls, constant before its first and after its last point.

    Attributes:
        points: (x, y), with increasing x.
    """

    points: tuple[tuple[float, float], ...]

    def __call__(self, x: float) -> float:
        """Return the value of the curve at x."""
        index = bisect_right(self.points, x, key=lambda point: point[0])
        if index in (0, len(self.points)):
            return self.points[min(index, len(self.points) - 1)][1]
        (left, low), (right, high) = self.points[index - 1 : index + 1]
        return low + (high - low) * (x - left) / (right - left)


def fit_isotonic(xs: Sequence[float], ys: Sequence[float]) -> MonotoneCurve:
    """Fit the non-decreasing curve with the least squared error (Ayer et al. 1955, pool adjacent violators).

    Adjacent points that fall are merged into one at their weighted mean, until none fall.

    Raises:
        DataError: there are no points, or `xs` and `ys` differ in length.
    """
    if not xs or len(xs) != len(ys):
        raise DataError(
            f"{len(xs)} scores and {len(ys)} values do not make a curve; give the same number of both, and at least one"
        )
    pools: list[tuple[float, float, int]] = []
    for x, y in sorted(zip(xs, ys, strict=True)):
        pools.append((x, y, 1))
        while len(pools) > 1 and (pools[-2][1] >= pools[-1][1] or pools[-2][0] == pools[-1][0]):
            pools[-2:] = [_merge_pools(*pools[-2:])]
    return MonotoneCurve(tuple((x, y) for x, y, _ in pools))


def _merge_pools(first: tuple[float, float, int], second: tuple[float, float, int]) -> tuple[float, float, int]:
    """Return the weighted mean of two pools, and their joint weight."""
    weight = first[2] + second[2]
    x, y = ((first[axis] * first[2] + second[axis] * second[2]) / weight for axis in (0, 1))
    return x, y, weight
