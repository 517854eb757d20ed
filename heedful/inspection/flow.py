"""How much of each token reaches a place over all layers: rollout and flow (Abnar and Zuidema 2020).

Weights are means over heads. Of what a layer returns, one half is its input, which goes around the attention, and the
other half is what the attention looked at; a query that sees nothing keeps its input. A layer of a decoder does so
twice: towards what was read before, then towards the last layer of the encoder. Where there is no attention of one of
these kinds, as in recurrent and convolutional models, its half-step is missing; without layers of an encoder that
attend, the tokens of the source themselves are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import networkx
import numpy as np
from jaxtyping import Float
from networkx.algorithms.flow import build_residual_network, shortest_augmenting_path

from heedful.attention.probe import READ
from heedful.errors import DataError
from heedful.inspection.record import Axis, Map, Record

Side = Literal["encoder", "decoder"]

_NOTHING = 1e-9
_UNITS = 2**40
"""Capacities as whole numbers: sums and differences of these are exact, so that the search for ways ends."""


@dataclass(frozen=True)
class Rollout:
    """The share that each token of the last layer has of each token of the input.

    Attributes:
        queries: the tokens of the last layer.
        inputs: the source's tokens where there are any, then, for a decoder, those that were read.
        shares: columns are all inputs, one axis after the other; rows sum to 1.
    """

    queries: Axis
    inputs: tuple[Axis, ...]
    shares: Float[np.ndarray, "Q I"]

    def of(self, name: str) -> Float[np.ndarray, "Q K"]:
        """The columns of one axis of the inputs."""
        columns: np.ndarray = self.shares[:, _columns(self.inputs, name)]
        return columns


@dataclass(frozen=True)
class Flow:
    """The largest flow from one token of the last layer to each token of the input, where weights are capacities.

    Flows to different tokens may use the same ways, so they do not sum to 1.

    Attributes:
        query: number of the token in the last layer.
        inputs: as in `Rollout`.
        amounts: of all inputs, one axis after the other; from 0 to 1.
    """

    query: int
    inputs: tuple[Axis, ...]
    amounts: Float[np.ndarray, " I"]

    def of(self, name: str) -> Float[np.ndarray, " K"]:
        """The amounts of one axis of the inputs."""
        amounts: np.ndarray = self.amounts[_columns(self.inputs, name)]
        return amounts


def rollout(record: Record, *, side: Side | None = None) -> Rollout:
    """The product of all layers.

    Args:
        record: with all layers of the model.
        side: whose last layer; the decoder's if there is one, unless given.

    Raises:
        DataError: that side has no attention in the record, or layers are missing.
    """
    graph = _graph(record, side)
    shares = reduce(lambda below, step: step @ below, graph.steps, np.eye(graph.size))
    return Rollout(graph.queries, graph.inputs, shares[graph.top])


def attention_flow(record: Record, query: int, *, side: Side | None = None) -> Flow:
    """The largest flow from one token of the last layer down to each token of the input.

    Args:
        record: with all layers of the model.
        query: number of the token in the last layer.
        side: whose last layer, as in `rollout`.

    Raises:
        DataError: as `rollout`, or there is no such token.
    """
    graph = _graph(record, side)
    count = len(graph.queries.tokens)
    if not 0 <= query < count:
        raise DataError(f"token {query} of {graph.queries.name}: it has {count} tokens, counted from 0")
    start = (len(graph.steps), graph.top.start + query)
    ways = _ways(graph.steps, start)
    residual = build_residual_network(ways, "capacity")
    flows = [_most(ways, residual, start, (0, node)) for node in range(graph.size)]
    return Flow(query, graph.inputs, np.array(flows))


@dataclass(frozen=True)
class _Graph:
    """Nodes, the same on each level, and where those of a level take from on the level below.

    Attributes:
        inputs: what the nodes are called on the lowest level.
        queries: what the nodes at `top` are called on the highest one.
        top: their rows.
        steps: [N, N] each, from the tokens up; rows sum to 1.
    """

    inputs: tuple[Axis, ...]
    queries: Axis
    top: slice
    steps: list[np.ndarray]

    @property
    def size(self) -> int:
        return len(self.steps[0])


def _graph(record: Record, side: Side | None) -> _Graph:
    encoder, decoder = _ordered(record, "encoder"), _ordered(record, "decoder")
    wanted = side or ("decoder" if decoder else "encoder")
    maps = [*encoder, *decoder] if wanted == "decoder" else encoder
    if not (decoder if wanted == "decoder" else encoder):
        raise DataError(f"no attention of the {wanted} is in this record: rollout and flow need some")
    sources = dict.fromkeys(name for each in maps for name in _sources(each))
    inputs = tuple(record.axis(name) for name in sources)
    sourced = slice(0, sum(len(axis.tokens) for axis in inputs))
    if wanted == "decoder":
        inputs = (*inputs, _read(record, decoder))
    size = sum(len(axis.tokens) for axis in inputs)
    reading = slice(sourced.stop, size)

    def step(each: Map) -> np.ndarray:
        rows = _columns(inputs, each.queries) if each.role == "encoder" else reading
        columns = reading if each.role == "decoder" else _columns(inputs, each.keys)
        return _step(each, rows.start, columns.start, size)

    top = reading if wanted == "decoder" else _columns(inputs, maps[-1].queries)
    return _Graph(inputs, record.axis(maps[-1].queries), top, [step(each) for each in maps])


def _sources(each: Map) -> tuple[str, ...]:
    """The axes of nodes that are not the decoder's own."""
    return {"encoder": (each.queries, each.keys), "cross": (each.keys,), "decoder": ()}[each.role]


def _ordered(record: Record, side: Side) -> list[Map]:
    """Attentions of a side in the order in which a token passes them."""
    roles = ("encoder",) if side == "encoder" else ("decoder", "cross")
    for role in roles:
        layers = {each.layer for each in record.maps if each.role == role}
        missing = set(range(max(layers, default=-1) + 1)) - layers
        if missing:
            numbers = ", ".join(map(str, sorted(missing)))
            raise DataError(
                f"{role} layers {numbers} are not in this record: rollout and flow need all; inspect without --layers"
            )
    maps = [each for each in record.maps if each.role in roles and each.weights.size]
    return sorted(maps, key=lambda each: (each.layer, roles.index(each.role)))


def _read(record: Record, decoder: Sequence[Map]) -> Axis:
    """What a decoder read, by position; where the record does not say, what it wrote stands for it."""
    names = [each.keys for each in decoder if each.role == "decoder"] + [READ, decoder[0].queries]
    axes = {axis.name: axis for axis in record.axes}
    return next(axes[name] for name in names if name in axes and len(axes[name].tokens) == decoder[0].weights.shape[1])


def _step(each: Map, row: int, column: int, size: int) -> Float[np.ndarray, "N N"]:
    """One half stays, the other half is taken from what is looked at; all other nodes keep what they have."""
    mean = each.mean.astype(np.float64)
    sums = mean.sum(1, keepdims=True)
    seeing = np.abs(sums[:, 0]) > _NOTHING
    step = np.eye(size)
    rows = row + np.flatnonzero(seeing)
    step[rows] *= 0.5
    step[rows, column : column + mean.shape[1]] += 0.5 * mean[seeing] / sums[seeing]
    return step


def _columns(axes: Sequence[Axis], name: str) -> slice:
    """Where the tokens of an axis lie among all."""
    start = 0
    for axis in axes:
        if axis.name == name:
            return slice(start, start + len(axis.tokens))
        start += len(axis.tokens)
    raise DataError(f"no axis {name!r} among these inputs: {', '.join(axis.name for axis in axes)}")


_Node = tuple[int, int]
"""Level, from 0 for the tokens, and number."""


def _ways(steps: Sequence[np.ndarray], start: _Node) -> networkx.DiGraph:
    """All ways down from a node: an edge for each number of the steps that is above zero."""
    ways = networkx.DiGraph()
    ways.add_node(start)
    reached = {start[1]}
    for level in range(len(steps), 0, -1):
        step, below = np.rint(steps[level - 1] * _UNITS).astype(np.int64), set()
        for row in sorted(reached):
            for column in np.flatnonzero(step[row] > 0).tolist():
                ways.add_edge((level, row), (level - 1, column), capacity=int(step[row, column]))
                below.add(column)
        reached = below
    return ways


def _most(ways: networkx.DiGraph, residual: networkx.DiGraph, start: _Node, end: _Node) -> float:
    if end not in ways:
        return 0.0
    flow = networkx.maximum_flow_value(ways, start, end, flow_func=shortest_augmenting_path, residual=residual)
    return float(flow) / _UNITS
