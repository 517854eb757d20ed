"""Recurrent encoders: the order in which the source is read, and what is said of the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.attention.dropout import Dropout
from heedful.blocks.embedding import InputEmbedding
from heedful.blocks.layer_info import Direction, LayerInfo
from heedful.blocks.recurrent import CellState, RecurrentStack
from heedful.models.encoders import Pooler
from heedful.models.interface import Encoder
from heedful.tensors import FeatureBatch, Memory, Tokens


@final
class FinalStatePooler(Pooler):
    """Where the layers of a recurrent encoder have ended.

    Args:
        pool_states: what of their states, which come from the lowest layer to the highest: one of the four functions below.
    """

    def __init__(self, pool_states: Callable[[tuple[CellState, ...]], Float[Tensor, "B d_summary"]]) -> None:
        super().__init__()
        self.pool_states = pool_states

    def forward(
        self, hidden: Float[Tensor, "B T d"], positions: Int[Tensor, "B T"], final_states: tuple[CellState, ...] = ()
    ) -> Float[Tensor, "B d_summary"]:
        """Of the states alone."""
        assert final_states, "only a recurrent encoder has states in which it ends"
        return self.pool_states(final_states)


def take_last_state(final_states: tuple[CellState, ...]) -> Float[Tensor, "B d"]:
    """c = h_n of the last layer; in a bidirectional one, that of the cell from left to right."""
    return final_states[-1][0]


def take_first_backward(final_states: tuple[CellState, ...]) -> Float[Tensor, "B d"]:
    """Where the cell from right to left ends, at the first token (Bahdanau et al. 2015, A.2.2)."""
    return final_states[-1][len(final_states[-1]) // 2]


def take_both_ends(final_states: tuple[CellState, ...]) -> Float[Tensor, "B d_both"]:
    """Where both cells of a bidirectional layer end, side by side."""
    return torch.cat((take_last_state(final_states), take_first_backward(final_states)), -1)


def take_all_layers(final_states: tuple[CellState, ...]) -> Float[Tensor, "B d_all"]:
    """All that the cells of all layers remember, side by side (Sutskever et al. 2014)."""
    return torch.cat([part for state in final_states for part in state], -1)


@dataclass(frozen=True)
class SourceOrder:
    """In which order a source is read.

    Attributes:
        to_reading_order: what belongs to each token, [B, T, ...], in the order of reading, [B, R, ...].
        to_source_order: one output for each token of the source, in its own order, of the outputs of all that was read.
    """

    to_reading_order: Callable[[Tensor], Tensor]
    to_source_order: Callable[[Tensor], Tensor]


AS_WRITTEN: Final = SourceOrder(lambda columns: columns, lambda outputs: outputs)
"""From the first token to the last."""
REVERSED: Final = SourceOrder(lambda columns: columns.flip(1), lambda outputs: outputs.flip(1))
"""From the last token to the first, which brings the first words of both languages together (Sutskever et al. 2014,
3.3)."""
DOUBLED: Final = SourceOrder(
    lambda columns: torch.cat((columns, columns), 1), lambda outputs: outputs[:, outputs.size(1) // 2 :]
)
"""Twice, one after the other (Zaremba and Sutskever 2014, section 5); what the second reading gave is kept."""


class RecurrentEncoder(Encoder[Tokens | FeatureBatch]):
    """A recurrent stack over the source: its outputs are the memory, its last states the summary.

    Dropout is on the outputs.
    """

    def __init__(
        self,
        embedding: InputEmbedding,
        stack: RecurrentStack,
        *,
        summary: Pooler,
        order: SourceOrder = AS_WRITTEN,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.order = order
        self.summary = summary
        self.dropout = Dropout(dropout)

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Those of the stack, in the order of reading; of what is read twice, the lowest has read all before."""
        pool_states = self.summary.pool_states if isinstance(self.summary, FinalStatePooler) else None
        directions: dict[object, tuple[Direction, ...]] = {
            take_last_state: ("forward",),
            take_first_backward: ("backward",),
        }
        lowest, *others = (
            replace(layer, ends=directions.get(pool_states, layer.ends)) for layer in self.stack.describe_layers()
        )
        if self.order is DOUBLED:
            return (replace(lowest, before=None, after=None), *others)
        return tuple(map(_reverse_layer, (lowest, *others))) if self.order is REVERSED else (lowest, *others)

    def forward(self, source: Tokens | FeatureBatch) -> Memory:
        """A memory slot for each token."""
        x = self.order.to_reading_order(self.embedding(source))
        positions = self.order.to_reading_order(source.positions)
        outputs, states = self.stack(x, self.stack.init_state(len(x), x), positions=positions)
        outputs = self.dropout(self.order.to_source_order(outputs))
        return Memory(outputs, outputs, source.positions, self.summary(outputs, source.positions, states))


def _reverse_layer(layer: LayerInfo) -> LayerInfo:
    """The same from right to left."""
    opposite: dict[Direction, Direction] = {"forward": "backward", "backward": "forward"}
    carries, ends = (
        tuple(opposite[direction] for direction in directions) for directions in (layer.carries, layer.ends)
    )
    return replace(layer, carries=carries, ends=ends)
