"""Recurrent encoders: reading order of the source, and its summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.attention.dropout import Dropout
from heedful.blocks.embedding import InputEmbedding
from heedful.blocks.layer_info import Direction, LayerInfo
from heedful.blocks.recurrent import CellState, RecurrentStack
from heedful.models.interface import Encoder
from heedful.tensors import FeatureBatch, Memory, Tokens

StateSummary: TypeAlias = Callable[[tuple[CellState, ...]], Float[Tensor, "B d_summary"]]
"""Maps the final states of a recurrent encoder, from the lowest layer to the highest, to one vector per text: one of
the four functions below."""


def take_last_state(final_states: tuple[CellState, ...]) -> Float[Tensor, "B d"]:
    """Return h_n of the last layer; in a bidirectional one, that of the cell from left to right."""
    return final_states[-1][0]


def take_first_backward(final_states: tuple[CellState, ...]) -> Float[Tensor, "B d"]:
    """Return the final state of the cell from right to left, at the first token (Bahdanau et al. 2015, A.2.2)."""
    return final_states[-1][len(final_states[-1]) // 2]


def take_both_ends(final_states: tuple[CellState, ...]) -> Float[Tensor, "B d_both"]:
    """Return the final states of both cells of a bidirectional layer, concatenated."""
    return torch.cat((take_last_state(final_states), take_first_backward(final_states)), -1)


def take_all_layers(final_states: tuple[CellState, ...]) -> Float[Tensor, "B d_all"]:
    """Return the final states of all layers, concatenated (Sutskever et al. 2014)."""
    return torch.cat([part for state in final_states for part in state], -1)


@dataclass(frozen=True)
class SourceOrder:
    """The order in which a source is read.

    Attributes:
        to_reading_order: maps token features, [B, T, ...], to reading order, [B, R, ...].
        to_source_order: maps outputs in reading order to one output per source token, in source order.
    """

    to_reading_order: Callable[[Tensor], Tensor]
    to_source_order: Callable[[Tensor], Tensor]


AS_WRITTEN: Final = SourceOrder(lambda columns: columns, lambda outputs: outputs)
"""Reads the source from the first token to the last."""
REVERSED: Final = SourceOrder(lambda columns: columns.flip(1), lambda outputs: outputs.flip(1))
"""Reads the source from the last token to the first, which brings the first words of both languages together (Sutskever
et al. 2014, 3.3)."""
DOUBLED: Final = SourceOrder(
    lambda columns: torch.cat((columns, columns), 1), lambda outputs: outputs[:, outputs.size(1) // 2 :]
)
"""Reads the source twice, one after the other (Zaremba and Sutskever 2014, section 5); keeps the outputs of the second
reading."""


class RecurrentEncoder(Encoder[Tokens | FeatureBatch]):
    """Recurrent encoder: the outputs of the stack are the memory, its final states the summary.

    Dropout is applied to the outputs.
    """

    def __init__(
        self,
        embedding: InputEmbedding,
        stack: RecurrentStack,
        *,
        summary: StateSummary,
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
        """Describe the stack in reading order; if the source is read twice, the lowest layer has read all of it
        before.
        """
        directions: dict[object, tuple[Direction, ...]] = {
            take_last_state: ("forward",),
            take_first_backward: ("backward",),
        }
        lowest, *others = (
            replace(layer, ends=directions.get(self.summary, layer.ends)) for layer in self.stack.describe_layers()
        )
        if self.order is DOUBLED:
            return (replace(lowest, before=None, after=None), *others)
        return tuple(map(_reverse_layer, (lowest, *others))) if self.order is REVERSED else (lowest, *others)

    def forward(self, source: Tokens | FeatureBatch) -> Memory:
        """Return a memory slot for each token."""
        x = self.order.to_reading_order(self.embedding(source))
        positions = self.order.to_reading_order(source.positions)
        outputs, states = self.stack(x, self.stack.init_state(len(x), x), positions=positions)
        outputs = self.dropout(self.order.to_source_order(outputs))
        return Memory(outputs, outputs, source.positions, self.summary(states))


def _reverse_layer(layer: LayerInfo) -> LayerInfo:
    """Reverse the directions in the description of a layer."""
    opposite: dict[Direction, Direction] = {"forward": "backward", "backward": "forward"}
    carries, ends = (
        tuple(opposite[direction] for direction in directions) for directions in (layer.carries, layer.ends)
    )
    return replace(layer, carries=carries, ends=ends)
