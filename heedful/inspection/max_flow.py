"""Maximum flow through levels of nodes, computed with matrix operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

_UNITS, _INFINITY = 2**40, 2**62
"""Widths as whole numbers: sums and differences of these are exact, so that the search for ways ends."""

_IndexGrid = tuple[np.ndarray, ...]

_ROUNDING_FACTOR = 1 - 2**-40
"""Keeps shares that were rounded to numbers of 53 bits from summing up to more than there was."""


class FlowNetwork:
    """Capacities between consecutive levels of nodes, and the residual capacities of the current flow.

    Args:
        steps: capacities [N, N], from the lowest step up; rows are nodes of the upper level. Negative capacities, which
            may come from weights that only sum to 1, count as 0.
    """

    def __init__(self, steps: Sequence[Float[np.ndarray, "N N"]]) -> None:
        self._capacities = [np.rint(np.maximum(step, 0) * _UNITS).astype(np.int64) for step in steps]
        self._residual, self._flow = self._capacities, [np.zeros_like(each) for each in self._capacities]
        self._size = len(steps[0])

    def compute_max_flow(self, start: int, end: int) -> float:
        """Return the maximum flow from a node of the highest level to a node of the lowest.

        Augmenting paths are filled until there is none, always the shortest first, all of one length at a time (Dinic
        1970). Most searches end at once, because all that leaves the start or all that enters the end is used.
        """
        self._residual, self._flow = (
            [each.copy() for each in self._capacities],
            [np.zeros_like(each) for each in self._capacities],
        )
        start_index = len(self._capacities) * self._size + start
        bound = min(int(self._capacities[-1][start].sum()), int(self._capacities[0][:, end].sum()))
        total = 0
        while total < bound and (added := self._augment_flow(self._find_shortest_paths(start_index, end))):
            total += added
        return total / _UNITS

    def _find_shortest_paths(self, start_index: int, end: int) -> list[Int[np.ndarray, " _"]]:
        """Return the nodes at each distance on shortest paths from the first node to the end; empty without a path."""
        levels, size = len(self._residual) + 1, self._size
        frontier = np.zeros((levels, size), dtype=bool)
        unvisited = ~frontier
        frontier.flat[start_index] = True
        layers = []
        while frontier.any():
            unvisited &= ~frontier
            layers.append(np.flatnonzero(frontier))
            reached = np.zeros_like(frontier)
            for level in np.flatnonzero(frontier.any(1)).tolist():
                nodes = np.flatnonzero(frontier[level])
                if level > 0:
                    reached[level - 1] |= (self._residual[level - 1][nodes] > 0).any(0)
                if level < levels - 1:
                    reached[level + 1] |= (self._flow[level][:, nodes] > 0).any(1)
            frontier = reached & unvisited
            if frontier[0, end]:
                return [*layers, np.array([end])]
        return []

    def _augment_flow(self, paths: Sequence[Int[np.ndarray, " _"]]) -> int:
        """Send as much flow as possible along these paths, and return the amount that arrived."""
        if not paths:
            return 0
        capacities: list[np.ndarray] = []
        room = [np.array([_INFINITY])]
        for above, below in reversed(list(pairwise(paths))):  # no more than what can go on from there
            capacities.insert(0, np.minimum(self._residual_capacities(above, below), room[0]))
            room.insert(0, capacities[0].sum(1))
        flows, excess = [], [room[0]]
        for capacity, limit in zip(capacities, room[1:], strict=True):
            flows.append(_distribute_flow(capacity, excess[-1], limit))
            excess[-1] = excess[-1] - flows[-1].sum(1)
            excess.append(flows[-1].sum(0))
        for step in reversed(range(1, len(flows))):  # what found no way on goes back
            returned = _clip_cumulative(flows[step - 1], excess[step])
            flows[step - 1] -= returned
            excess[step - 1] = excess[step - 1] + returned.sum(1)
        for (above, below), amounts in zip(pairwise(paths), flows, strict=True):
            self._apply_flow(above, below, amounts)
        return int(flows[-1].sum())

    def _residual_capacities(
        self, above: Int[np.ndarray, " A"], below: Int[np.ndarray, " B"]
    ) -> Int[np.ndarray, "A B"]:
        """Return the residual capacities between nodes: the rest of an edge down, or flow to take back."""
        capacities = np.zeros((len(above), len(below)), dtype=np.int64)
        for cells, edges, forward, _ in self._iter_edges(above, below):
            capacities[cells] = forward[edges]
        return capacities

    def _apply_flow(
        self, above: Int[np.ndarray, " A"], below: Int[np.ndarray, " B"], amounts: Int[np.ndarray, "A B"]
    ) -> None:
        """Add flow between nodes and update the residual capacities."""
        for cells, edges, forward, backward in self._iter_edges(above, below):
            forward[edges] -= amounts[cells]
            backward[edges] += amounts[cells]

    def _iter_edges(
        self, above: Int[np.ndarray, " A"], below: Int[np.ndarray, " B"]
    ) -> Iterator[tuple[_IndexGrid, _IndexGrid, Int[np.ndarray, "N N"], Int[np.ndarray, "N N"]]]:
        """Yield node pairs that edges join, the edges' indices, and residual capacity forward and backward."""
        for level in np.unique(above // self._size).tolist():
            rows = np.flatnonzero(above // self._size == level)
            for other in (level - 1, level + 1):
                columns = np.flatnonzero(below // self._size == other)
                if len(columns):
                    down, up = self._residual[min(level, other)], self._flow[min(level, other)]
                    forward, backward = (down, up) if other < level else (up.T, down.T)
                    edges = np.ix_(above[rows] % self._size, below[columns] % self._size)
                    yield np.ix_(rows, columns), edges, forward, backward


def _distribute_flow(
    capacities: Int[np.ndarray, "A B"], supply: Int[np.ndarray, " A"], demand: Int[np.ndarray, " B"]
) -> Int[np.ndarray, "A B"]:
    """Distribute supply among columns: first proportionally, the rest in turn, so that some flow always moves."""
    flow = np.zeros_like(capacities)
    for last in (False, False, True):
        remaining = np.minimum(capacities - flow, demand - flow.sum(0))
        proposed = (
            (_clip_cumulative(remaining.T, supply - flow.sum(1)).T)
            if last
            else _scale_to_limits(remaining, supply - flow.sum(1), axis=1)
        )
        free = demand - flow.sum(0)
        flow += _clip_cumulative(proposed, free) if last else _scale_to_limits(proposed, free, axis=0)
    return flow


def _scale_to_limits(
    amounts: Int[np.ndarray, "A B"], limits: Int[np.ndarray, " M"], *, axis: int
) -> Int[np.ndarray, "A B"]:
    """Scale amounts down where their sums along an axis exceed the limits."""
    sums = amounts.sum(axis)
    factors = _ROUNDING_FACTOR * limits / np.maximum(sums, 1)
    smaller = (amounts * np.expand_dims(np.minimum(factors, 1.0), axis)).astype(np.int64)
    result: np.ndarray = np.where(np.expand_dims(sums <= limits, axis), amounts, smaller)
    return result


def _clip_cumulative(amounts: Int[np.ndarray, "A B"], limits: Int[np.ndarray, " B"]) -> Int[np.ndarray, "A B"]:
    """Keep the first amounts of each column, as long as their sum does not exceed its limit."""
    result: np.ndarray = np.clip(limits - (amounts.cumsum(0) - amounts), 0, amounts)
    return result
