"""The largest flow through levels of nodes, every one of which reaches into the next, by products of matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

_UNITS, _ENDLESS = 2**40, 2**62
"""Widths as whole numbers: sums and differences of these are exact, so that the search for ways ends."""

_Cells = tuple[np.ndarray, ...]

_BARELY = 1 - 2**-40
"""Keeps shares that were rounded to numbers of 53 bits from summing up to more than there was."""


class Pipes:
    """Pipes from each level to the one below, and what still fits into them.

    Args:
        steps: widths [N, N], from the lowest step up; rows are nodes of the upper level. Through what is narrower than
            0, as weights may be that only sum to 1, nothing flows.
    """

    def __init__(self, steps: Sequence[Float[np.ndarray, "N N"]]) -> None:
        self._widths = [np.rint(np.maximum(step, 0) * _UNITS).astype(np.int64) for step in steps]
        self._left, self._sent = self._widths, [np.zeros_like(each) for each in self._widths]
        self._size = len(steps[0])

    def most(self, start: int, end: int) -> float:
        """How much can flow from a node of the highest level to one of the lowest.

        Ways are filled until there is none, always the shortest first, all of one length at a time (Dinic 1970). Most
        searches end at once, because all that leaves the start or all that enters the end is taken.
        """
        self._left, self._sent = [each.copy() for each in self._widths], [np.zeros_like(each) for each in self._widths]
        first = len(self._widths) * self._size + start
        bound = min(int(self._widths[-1][start].sum()), int(self._widths[0][:, end].sum()))
        total = 0
        while total < bound and (more := self._fill(self._ways(first, end))):
            total += more
        return total / _UNITS

    def _ways(self, first: int, end: int) -> list[Int[np.ndarray, " _"]]:
        """The nodes at each distance from the first one to the end, counted over all levels; none if it is cut off."""
        levels, size = len(self._left) + 1, self._size
        new = np.zeros((levels, size), dtype=bool)
        far = ~new
        new.flat[first] = True
        fronts = []
        while new.any():
            far &= ~new
            fronts.append(np.flatnonzero(new))
            reached = np.zeros_like(new)
            for level in np.flatnonzero(new.any(1)).tolist():
                nodes = np.flatnonzero(new[level])
                if level > 0:
                    reached[level - 1] |= (self._left[level - 1][nodes] > 0).any(0)
                if level < levels - 1:
                    reached[level + 1] |= (self._sent[level][:, nodes] > 0).any(1)
            new = reached & far
            if new[0, end]:
                return [*fronts, np.array([end])]
        return []

    def _fill(self, ways: Sequence[Int[np.ndarray, " _"]]) -> int:
        """Sends what fits along these ways, and says how much arrived: something, if there are ways at all."""
        if not ways:
            return 0
        fitting: list[np.ndarray] = []
        room = [np.array([_ENDLESS])]
        for above, below in reversed(list(pairwise(ways))):  # no more than what can go on from there
            fitting.insert(0, np.minimum(self._fitting(above, below), room[0]))
            room.insert(0, fitting[0].sum(1))
        sent, waiting = [], [room[0]]
        for fits, takes in zip(fitting, room[1:], strict=True):
            sent.append(_shared(fits, waiting[-1], takes))
            waiting[-1] = waiting[-1] - sent[-1].sum(1)
            waiting.append(sent[-1].sum(0))
        for step in reversed(range(1, len(sent))):  # what found no way on goes back
            back = _up_to(sent[step - 1], waiting[step])
            sent[step - 1] -= back
            waiting[step - 1] = waiting[step - 1] + back.sum(1)
        for (above, below), amounts in zip(pairwise(ways), sent, strict=True):
            self._send(above, below, amounts)
        return int(sent[-1].sum())

    def _fitting(self, above: Int[np.ndarray, " A"], below: Int[np.ndarray, " B"]) -> Int[np.ndarray, "A B"]:
        """What still fits between nodes: the rest of a pipe down, or up again what was sent down."""
        found = np.zeros((len(above), len(below)), dtype=np.int64)
        for cells, pipes, forth, _ in self._between(above, below):
            found[cells] = forth[pipes]
        return found

    def _send(
        self, above: Int[np.ndarray, " A"], below: Int[np.ndarray, " B"], amounts: Int[np.ndarray, "A B"]
    ) -> None:
        for cells, pipes, forth, back in self._between(above, below):
            forth[pipes] -= amounts[cells]
            back[pipes] += amounts[cells]

    def _between(
        self, above: Int[np.ndarray, " A"], below: Int[np.ndarray, " B"]
    ) -> Iterator[tuple[_Cells, _Cells, Int[np.ndarray, "N N"], Int[np.ndarray, "N N"]]]:
        """Which pairs of nodes pipes join, downwards or upwards, by which pipes, and what fits in forth and back."""
        for level in np.unique(above // self._size).tolist():
            rows = np.flatnonzero(above // self._size == level)
            for other in (level - 1, level + 1):
                columns = np.flatnonzero(below // self._size == other)
                if len(columns):
                    down, up = self._left[min(level, other)], self._sent[min(level, other)]
                    forth, back = (down, up) if other < level else (up.T, down.T)
                    pipes = np.ix_(above[rows] % self._size, below[columns] % self._size)
                    yield np.ix_(rows, columns), pipes, forth, back


def _shared(
    fits: Int[np.ndarray, "A B"], give: Int[np.ndarray, " A"], take: Int[np.ndarray, " B"]
) -> Int[np.ndarray, "A B"]:
    """What rows give to columns; every row its part of each first, the rest in turn, so that something always moves."""
    sent = np.zeros_like(fits)
    for last in (False, False, True):
        rest = np.minimum(fits - sent, take - sent.sum(0))
        more = (_up_to(rest.T, give - sent.sum(1)).T) if last else _in_parts(rest, give - sent.sum(1), axis=1)
        room = take - sent.sum(0)
        sent += _up_to(more, room) if last else _in_parts(more, room, axis=0)
    return sent


def _in_parts(amounts: Int[np.ndarray, "A B"], most: Int[np.ndarray, " M"], *, axis: int) -> Int[np.ndarray, "A B"]:
    """Less of everything where the sums along an axis are too large."""
    sums = amounts.sum(axis)
    parts = _BARELY * most / np.maximum(sums, 1)
    smaller = (amounts * np.expand_dims(np.minimum(parts, 1.0), axis)).astype(np.int64)
    result: np.ndarray = np.where(np.expand_dims(sums <= most, axis), amounts, smaller)
    return result


def _up_to(amounts: Int[np.ndarray, "A B"], most: Int[np.ndarray, " B"]) -> Int[np.ndarray, "A B"]:
    """The upper ones of each column, as far as they sum up to no more than its most."""
    result: np.ndarray = np.clip(most - (amounts.cumsum(0) - amounts), 0, amounts)
    return result
