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

import numpy as np
from jaxtyping import Float

from heedful.attention.probe import READ
from heedful.errors import DataError
from heedful.inspection.pipes import Pipes
from heedful.inspection.record import Axis, Map, Record

Side = Literal["encoder", "decoder"]

_NOTHING = 1e-9


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

    @property
    def tokens(self) -> list[str]:
        """Of all inputs."""
        return [token for axis in self.inputs for token in axis.tokens]

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
    graph = graph_of(record, side)
    shares = reduce(lambda below, step: step.matrix(graph.size) @ below, graph.steps, np.eye(graph.size))
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
    graph = graph_of(record, side)
    count = len(graph.queries.tokens)
    if not 0 <= query < count:
        raise DataError(f"token {query} of {graph.queries.name}: it has {count} tokens, counted from 0")
    pipes = Pipes([step.matrix(graph.size) for step in graph.steps])
    flows = [pipes.most(graph.top.start + query, node) for node in range(graph.size)]
    return Flow(query, graph.inputs, np.array(flows))


@dataclass(frozen=True)
class Step:
    """One attention in the graph of all: its queries are nodes from `row` on, its keys nodes from `column` on."""

    map: Map
    row: int
    column: int

    def matrix(self, size: int) -> Float[np.ndarray, "N N"]:
        """Where nodes take from: one half stays, the other is what is looked at; all others keep what they have."""
        mean = self.map.mean.astype(np.float64)
        sums = mean.sum(1, keepdims=True)
        seeing = np.abs(sums[:, 0]) > _NOTHING
        step = np.eye(size)
        rows = self.row + np.flatnonzero(seeing)
        step[rows] *= 0.5
        step[rows, self.column : self.column + mean.shape[1]] += 0.5 * mean[seeing] / sums[seeing]
        return step


@dataclass(frozen=True)
class Graph:
    """Nodes, the same on each level, and where those of a level take from on the level below.

    Attributes:
        inputs: what the nodes are called on the lowest level.
        queries: what the nodes at `top` are called on the highest one.
        top: their rows.
        steps: from the tokens up.
    """

    inputs: tuple[Axis, ...]
    queries: Axis
    top: slice
    steps: tuple[Step, ...]

    @property
    def size(self) -> int:
        """Nodes of a level."""
        return sum(len(axis.tokens) for axis in self.inputs)


def graph_of(record: Record, side: Side | None = None) -> Graph:
    """All attention of a side as one graph, that of the encoder below the decoder's.

    Raises:
        DataError: as `rollout`.
    """
    encoder, decoder = _ordered(record, "encoder"), _ordered(record, "decoder")
    wanted = side or ("decoder" if decoder else "encoder")
    maps = [*encoder, *decoder] if wanted == "decoder" else encoder
    if not (decoder if wanted == "decoder" else encoder):
        raise DataError(f"no attention of the {wanted} is in this record: rollout and flow need some")
    sources = dict.fromkeys(  # what is not the decoder's own
        name
        for each in maps
        for name in {"encoder": (each.queries, each.keys), "cross": (each.keys,), "decoder": ()}[each.role]
    )
    inputs = tuple(record.axis(name) for name in sources)
    sourced = slice(0, sum(len(axis.tokens) for axis in inputs))
    if wanted == "decoder":
        inputs = (*inputs, _read(record, decoder))
    reading = slice(sourced.stop, sum(len(axis.tokens) for axis in inputs))

    def step(each: Map) -> Step:
        rows = _columns(inputs, each.queries) if each.role == "encoder" else reading
        columns = reading if each.role == "decoder" else _columns(inputs, each.keys)
        return Step(each, rows.start, columns.start)

    top = reading if wanted == "decoder" else _columns(inputs, maps[-1].queries)
    return Graph(inputs, record.axis(maps[-1].queries), top, tuple(step(each) for each in maps))


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


def _columns(axes: Sequence[Axis], name: str) -> slice:
    """Where the tokens of an axis lie among all."""
    start = 0
    for axis in axes:
        if axis.name == name:
            return slice(start, start + len(axis.tokens))
        start += len(axis.tokens)
    raise DataError(f"no axis {name!r} among these inputs: {', '.join(axis.name for axis in axes)}")
