"""Attention rollout and flow: how much of each input token reaches the last layer (Abnar and Zuidema 2020).

Weights are averaged over heads. Half of a layer's output is its input, through the residual connection, and the other
half is the attended values; a query that sees nothing keeps its input. A decoder layer does so twice: with
self-attention, then with cross-attention to the last encoder layer. If a model has no attention of one of these kinds,
as recurrent and convolutional models, that half-step is missing; without encoder self-attention, cross-attention goes
to the source tokens themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from heedful.attention.hooks import READ_AXIS
from heedful.errors import DataError
from heedful.inspection.record import AttentionMap, InspectionRecord, MapAxis

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
        """Return the maximum flow from node `start` of the highest level to node `end` of the lowest.

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
        """Return the nodes at each distance from a node, as far as node `end` of the lowest level, which alone is the
        last item; empty without a path. Only edges with residual capacity count. `start_index` and the results count
        the nodes of all levels, from the lowest up.
        """
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
        """Send flow along these paths, and return the amount that arrived. `paths` are the nodes at each distance from
        the start, as `_find_shortest_paths` returns them.
        """
        if not paths:
            return 0
        capacities: list[np.ndarray] = []
        room = [np.array([_INFINITY])]
        for above, below in reversed(list(pairwise(paths))):  # at most the flow that can continue from there
            capacities.insert(0, np.minimum(self._residual_capacities(above, below), room[0]))
            room.insert(0, capacities[0].sum(1))
        flows, excess = [], [room[0]]
        for capacity, limit in zip(capacities, room[1:], strict=True):
            flows.append(_distribute_flow(capacity, excess[-1], limit))
            excess[-1] = excess[-1] - flows[-1].sum(1)
            excess.append(flows[-1].sum(0))
        for step in reversed(range(1, len(flows))):  # flow that could not continue is returned
            returned = _clip_cumulative(flows[step - 1], excess[step])
            flows[step - 1] -= returned
            excess[step - 1] = excess[step - 1] + returned.sum(1)
        for (above, below), amounts in zip(pairwise(paths), flows, strict=True):
            self._apply_flow(above, below, amounts)
        return int(flows[-1].sum())

    def _residual_capacities(
        self, above: Int[np.ndarray, " A"], below: Int[np.ndarray, " B"]
    ) -> Int[np.ndarray, "A B"]:
        """Return how much more flow can pass from each node in `above` to each node in `below`; 0 where no edge joins
        them. From a level to the next lower one it is the unused capacity, in the other direction the flow that can be
        taken back.
        """
        capacities = np.zeros((len(above), len(below)), dtype=np.int64)
        for cells, edges, forward, _ in self._iter_edges(above, below):
            capacities[cells] = forward[edges]
        return capacities

    def _apply_flow(
        self, above: Int[np.ndarray, " A"], below: Int[np.ndarray, " B"], amounts: Int[np.ndarray, "A B"]
    ) -> None:
        """Add the flow `amounts` from each node in `above` to each node in `below`; change the residual capacities."""
        for cells, edges, forward, backward in self._iter_edges(above, below):
            forward[edges] -= amounts[cells]
            backward[edges] += amounts[cells]

    def _iter_edges(
        self, above: Int[np.ndarray, " A"], below: Int[np.ndarray, " B"]
    ) -> Iterator[tuple[_IndexGrid, _IndexGrid, Int[np.ndarray, "N N"], Int[np.ndarray, "N N"]]]:
        """Yield the edges between nodes in `above` and nodes in `below`, for each pair of neighbouring levels: their
        cells in the matrix [A, B], their cells in the level's matrix, and the level's residual capacities forward and
        backward, which the caller may change.
        """
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
    """Distribute the supply of each row among the columns: first proportionally, the rest in turn, so that some flow
    always moves. A cell gets at most its capacity, and a column at most its demand.
    """
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


SideName = Literal["encoder", "decoder"]

_NOTHING = 1e-9


@dataclass(frozen=True)
class AttentionRollout:
    """Attention rollout: the share of each input token in each token of the last layer.

    Attributes:
        queries: the tokens of the last layer.
        inputs: the source axes if there are any, then, for a decoder, the tokens that it read.
        shares: columns are all inputs, one axis after the other; rows sum to 1.
    """

    queries: MapAxis
    inputs: tuple[MapAxis, ...]
    shares: Float[np.ndarray, "Q I"]

    @property
    def input_tokens(self) -> list[str]:
        """The tokens of all inputs."""
        return [token for axis in self.inputs for token in axis.tokens]

    def select_axis(self, name: str) -> Float[np.ndarray, "Q K"]:
        """Return the columns of one input axis."""
        columns: np.ndarray = self.shares[:, _find_columns(self.inputs, name)]
        return columns


@dataclass(frozen=True)
class AttentionFlow:
    """Maximum flow from one token of the last layer to each input token, with weights as capacities.

    Flows to different tokens may share edges, so they do not sum to 1.

    Attributes:
        query: index of the token in the last layer.
        inputs: as in `AttentionRollout`.
        amounts: for all inputs, one axis after the other; from 0 to 1.
    """

    query: int
    inputs: tuple[MapAxis, ...]
    amounts: Float[np.ndarray, " I"]

    def select_axis(self, name: str) -> Float[np.ndarray, " K"]:
        """Return the amounts of one input axis."""
        amounts: np.ndarray = self.amounts[_find_columns(self.inputs, name)]
        return amounts


def compute_rollout(record: InspectionRecord, *, side: SideName | None = None) -> AttentionRollout:
    """Compute the attention rollout of the encoder or decoder, the product of all layers up to its last. Without `side`
    it is that of the decoder, if the record has attention of one.

    Args:
        record: with all layers of the model.
        side: whose last layer; the decoder's if there is one, unless given.

    Raises:
        DataError: that side has no attention in the record, or layers are missing.
    """
    graph = build_attention_graph(record, side)
    shares = reduce(lambda below, step: step.build_matrix(graph.size) @ below, graph.steps, np.eye(graph.size))
    return AttentionRollout(graph.queries, graph.inputs, shares[graph.top])


def compute_attention_flow(record: InspectionRecord, query: int, *, side: SideName | None = None) -> AttentionFlow:
    """Compute the maximum flow from the token with index `query` of the last layer to each input token. Without `side`
    the layer is the decoder's, if the record has attention of one.

    Args:
        record: with all layers of the model.
        query: index of the token in the last layer.
        side: whose last layer, as in `compute_rollout`.

    Raises:
        DataError: as `compute_rollout`, or there is no such token.
    """
    graph = build_attention_graph(record, side)
    count = len(graph.queries.tokens)
    if not 0 <= query < count:
        raise DataError(f"token {query} of {graph.queries.name}: it has {count} tokens, counted from 0")
    network = FlowNetwork([step.build_matrix(graph.size) for step in graph.steps])
    flows = [network.compute_max_flow(graph.top.start + query, node) for node in range(graph.size)]
    return AttentionFlow(query, graph.inputs, np.array(flows))


@dataclass(frozen=True)
class AttentionStep:
    """One map in the attention graph: its queries are nodes from `row` on, its keys nodes from `column` on."""

    map: AttentionMap
    row: int
    column: int

    def build_matrix(self, size: int) -> Float[np.ndarray, "N N"]:
        """Return the transition matrix of a level with `size` nodes: query rows are half themselves and half the
        attended keys; other rows stay.
        """
        mean = self.map.mean_weights.astype(np.float64)
        sums = mean.sum(1, keepdims=True)
        has_weights = np.abs(sums[:, 0]) > _NOTHING
        step = np.eye(size)
        rows = self.row + np.flatnonzero(has_weights)
        step[rows] *= 0.5
        step[rows, self.column : self.column + mean.shape[1]] += 0.5 * mean[has_weights] / sums[has_weights]
        return step


@dataclass(frozen=True)
class AttentionGraph:
    """The graph of all attention: the same nodes on each level, and transitions from each level to the one below.

    Attributes:
        inputs: names of the nodes on the lowest level.
        queries: names of the nodes at `top` on the highest level.
        top: slice of those nodes.
        steps: from the tokens up.
    """

    inputs: tuple[MapAxis, ...]
    queries: MapAxis
    top: slice
    steps: tuple[AttentionStep, ...]

    @property
    def size(self) -> int:
        """Number of nodes on a level."""
        return sum(len(axis.tokens) for axis in self.inputs)


def build_attention_graph(record: InspectionRecord, side: SideName | None = None) -> AttentionGraph:
    """Build the graph of all attention of the encoder or decoder; without `side` of the decoder, if it has any. The
    lower levels of a decoder's graph are the encoder's.

    Raises:
        DataError: as `compute_rollout`.
    """
    encoder, decoder = _order_maps(record, "encoder"), _order_maps(record, "decoder")
    chosen_side = side or ("decoder" if decoder else "encoder")
    maps = [*encoder, *decoder] if chosen_side == "decoder" else encoder
    if not (decoder if chosen_side == "decoder" else encoder):
        raise DataError(f"no attention of the {chosen_side} is in this record: rollout and flow need some")
    sources = dict.fromkeys(  # axes that do not belong to the decoder
        name
        for attention_map in maps
        for name in {
            "encoder": (attention_map.queries, attention_map.keys),
            "cross": (attention_map.keys,),
            "decoder": (),
        }[attention_map.role]
    )
    inputs = tuple(record.get_axis(name) for name in sources)
    source_slice = slice(0, sum(len(axis.tokens) for axis in inputs))
    if chosen_side == "decoder":
        inputs = (*inputs, _find_read_axis(record, decoder))
    read_slice = slice(source_slice.stop, sum(len(axis.tokens) for axis in inputs))

    def make_step(attention_map: AttentionMap) -> AttentionStep:
        """Return the graph step of a map."""
        rows = _find_columns(inputs, attention_map.queries) if attention_map.role == "encoder" else read_slice
        columns = read_slice if attention_map.role == "decoder" else _find_columns(inputs, attention_map.keys)
        return AttentionStep(attention_map, rows.start, columns.start)

    top = read_slice if chosen_side == "decoder" else _find_columns(inputs, maps[-1].queries)
    return AttentionGraph(
        inputs, record.get_axis(maps[-1].queries), top, tuple(make_step(attention_map) for attention_map in maps)
    )


def _order_maps(record: InspectionRecord, side: SideName) -> list[AttentionMap]:
    """Return the maps of a side from the lowest layer up, self-attention before cross-attention; `DataError` if layers
    are missing in the record.
    """
    roles = ("encoder",) if side == "encoder" else ("decoder", "cross")
    for role in roles:
        layers = {attention_map.layer for attention_map in record.maps if attention_map.role == role}
        missing = set(range(max(layers, default=-1) + 1)) - layers
        if missing:
            numbers = ", ".join(map(str, sorted(missing)))
            raise DataError(
                f"{role} layers {numbers} are not in this record: rollout and flow need all; inspect without --layers"
            )
    maps = [
        attention_map for attention_map in record.maps if attention_map.role in roles and attention_map.weights.size
    ]
    return sorted(maps, key=lambda attention_map: (attention_map.layer, roles.index(attention_map.role)))


def _find_read_axis(record: InspectionRecord, decoder: Sequence[AttentionMap]) -> MapAxis:
    """Return the axis of the tokens that a decoder read, or of its generated tokens if the record has none; `decoder`
    are the decoder's maps.
    """
    names = [attention_map.keys for attention_map in decoder if attention_map.role == "decoder"] + [
        READ_AXIS,
        decoder[0].queries,
    ]
    axes = {axis.name: axis for axis in record.axes}
    return next(axes[name] for name in names if name in axes and len(axes[name].tokens) == decoder[0].weights.shape[1])


def _find_columns(axes: Sequence[MapAxis], name: str) -> slice:
    """Return the slice of one axis's tokens among the tokens of all axes; `DataError` if no axis is called `name`."""
    start = 0
    for axis in axes:
        if axis.name == name:
            return slice(start, start + len(axis.tokens))
        start += len(axis.tokens)
    raise DataError(f"no axis {name!r} among these inputs: {', '.join(axis.name for axis in axes)}")
