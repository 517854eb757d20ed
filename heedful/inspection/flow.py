"""Attention rollout and flow: how much of each input token reaches the last layer (Abnar and Zuidema 2020).

Weights are averaged over heads. Half of a layer's output is its input, through the residual connection, and the other
half is the attended values; a query that sees nothing keeps its input. A decoder layer does so twice: with
self-attention, then with cross-attention to the last encoder layer. If a model has no attention of one of these kinds,
as recurrent and convolutional models, that half-step is missing; without encoder self-attention, cross-attention goes
to the source tokens themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np
from jaxtyping import Float

from heedful.attention.hooks import READ_AXIS
from heedful.errors import DataError
from heedful.inspection.max_flow import FlowNetwork
from heedful.inspection.record import AttentionMap, InspectionRecord, MapAxis

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
    """Compute the attention rollout, the product of all layers.

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
    """Compute the maximum flow from one token of the last layer to each input token.

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
        """Return the transition matrix: query rows are half themselves and half the attended keys; others stay."""
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
    """Build the graph of all attention of a side; a decoder's stands on the encoder's.

    Raises:
        DataError: as `compute_rollout`.
    """
    encoder, decoder = _order_maps(record, "encoder"), _order_maps(record, "decoder")
    chosen_side = side or ("decoder" if decoder else "encoder")
    maps = [*encoder, *decoder] if chosen_side == "decoder" else encoder
    if not (decoder if chosen_side == "decoder" else encoder):
        raise DataError(f"no attention of the {chosen_side} is in this record: rollout and flow need some")
    sources = dict.fromkeys(  # what is not the decoder's own
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
    """Return the maps of a side in the order of computation; `DataError` if layers are missing."""
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
    """Return the axis of the tokens that a decoder read, or of its generated tokens if the record has none."""
    names = [attention_map.keys for attention_map in decoder if attention_map.role == "decoder"] + [
        READ_AXIS,
        decoder[0].queries,
    ]
    axes = {axis.name: axis for axis in record.axes}
    return next(axes[name] for name in names if name in axes and len(axes[name].tokens) == decoder[0].weights.shape[1])


def _find_columns(axes: Sequence[MapAxis], name: str) -> slice:
    """Return the slice of an axis's tokens among those of all axes."""
    start = 0
    for axis in axes:
        if axis.name == name:
            return slice(start, start + len(axis.tokens))
        start += len(axis.tokens)
    raise DataError(f"no axis {name!r} among these inputs: {', '.join(axis.name for axis in axes)}")
