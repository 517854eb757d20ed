"""From a model's own scores to what its answers are worth: a curve that never falls, learned from examples."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from heedful.errors import DataError


@dataclass(frozen=True)
class Monotone:
    """A curve of straight pieces that never falls; constant before its first and behind its last point.

    Attributes:
        points: (x, y), with growing x.
    """

    points: tuple[tuple[float, float], ...]

    def __call__(self, x: float) -> float:
        """Its height at x."""
        place = bisect_right(self.points, x, key=lambda point: point[0])
        if place in (0, len(self.points)):
            return self.points[min(place, len(self.points) - 1)][1]
        (left, low), (right, high) = self.points[place - 1 : place + 1]
        return low + (high - low) * (x - left) / (right - left)


def isotonic(xs: Sequence[float], ys: Sequence[float]) -> Monotone:
    """The curve that never falls and is nearest in squares to some points (Ayer et al. 1955, pool adjacent violators).

    Neighbours that fall become one point at their means, with the weight of both, until none fall.

    Raises:
        DataError: there are no points, or not as many of one side.
    """
    if not xs or len(xs) != len(ys):
        raise DataError(f"{len(xs)} scores and {len(ys)} values make no curve; give as many of both, and at least one")
    pools: list[tuple[float, float, int]] = []
    for x, y in sorted(zip(xs, ys, strict=True)):
        pools.append((x, y, 1))
        while len(pools) > 1 and (pools[-2][1] >= pools[-1][1] or pools[-2][0] == pools[-1][0]):
            pools[-2:] = [_pooled(*pools[-2:])]
    return Monotone(tuple((x, y) for x, y, _ in pools))


def _pooled(one: tuple[float, float, int], other: tuple[float, float, int]) -> tuple[float, float, int]:
    weight = one[2] + other[2]
    x, y = ((one[side] * one[2] + other[side] * other[2]) / weight for side in (0, 1))
    return x, y, weight
