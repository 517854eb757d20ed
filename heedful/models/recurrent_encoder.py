"""Recurrent encoders: the order in which the source is read, and what is said of the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.attention.dropout import Dropout
from heedful.blocks.embedding import Embedding
from heedful.blocks.levels import Direction, Level
from heedful.blocks.recurrent import CellState, RecurrentStack
from heedful.models.encoders import Summary
from heedful.models.interface import Encoder
from heedful.values import Memory, Tokens, Vectors


@final
class Ends(Summary):
    """Where the layers of a recurrent encoder have ended.

    Args:
        said: what of their states, which come from the lowest layer to the highest: one of the four functions below.
    """

    def __init__(self, said: Callable[[tuple[CellState, ...]], Float[Tensor, "B d_summary"]]) -> None:
        super().__init__()
        self.said = said

    def forward(
        self, hidden: Float[Tensor, "B T d"], positions: Int[Tensor, "B T"], ends: tuple[CellState, ...] = ()
    ) -> Float[Tensor, "B d_summary"]:
        """Of the states alone."""
        assert ends, "only a recurrent encoder has states in which it ends"
        return self.said(ends)


def last_state(ends: tuple[CellState, ...]) -> Float[Tensor, "B d"]:
    """c = h_n of the last layer; in a bidirectional one, that of the cell from left to right."""
    return ends[-1][0]


def first_backward(ends: tuple[CellState, ...]) -> Float[Tensor, "B d"]:
    """Where the cell from right to left ends, at the first token (Bahdanau et al. 2015, A.2.2)."""
    return ends[-1][len(ends[-1]) // 2]


def both_ends(ends: tuple[CellState, ...]) -> Float[Tensor, "B d_both"]:
    """Where both cells of a bidirectional layer end, side by side."""
    return torch.cat((last_state(ends), first_backward(ends)), -1)


def every_layer(ends: tuple[CellState, ...]) -> Float[Tensor, "B d_all"]:
    """All that the cells of all layers remember, side by side (Sutskever et al. 2014)."""
    return torch.cat([part for state in ends for part in state], -1)


@dataclass(frozen=True)
class SourceOrder:
    """In which order a source is read.

    Attributes:
        arrange: what belongs to each token, [B, T, ...], in the order of reading, [B, R, ...].
        restore: one output for each token of the source, in its own order, of the outputs of all that was read.
    """

    arrange: Callable[[Tensor], Tensor]
    restore: Callable[[Tensor], Tensor]


AS_WRITTEN: Final = SourceOrder(lambda columns: columns, lambda outputs: outputs)
"""From the first token to the last."""
REVERSED: Final = SourceOrder(lambda columns: columns.flip(1), lambda outputs: outputs.flip(1))
"""From the last token to the first, which brings the first words of both languages together (Sutskever et al. 2014,
3.3)."""
DOUBLED: Final = SourceOrder(
    lambda columns: torch.cat((columns, columns), 1), lambda outputs: outputs[:, outputs.size(1) // 2 :]
)
"""Twice, one after the other (Zaremba and Sutskever 2014, section 5); what the second reading gave is kept."""


class RecurrentEncoder(Encoder[Tokens | Vectors]):
    """A recurrent stack over the source: its outputs are the memory, its last states the summary.

    Dropout is on the outputs.
    """

    def __init__(
        self,
        embedding: Embedding,
        stack: RecurrentStack,
        *,
        summary: Summary,
        order: SourceOrder = AS_WRITTEN,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.order = order
        self.summary = summary
        self.dropout = Dropout(dropout)

    def levels(self) -> tuple[Level, ...]:
        """Those of the stack, in the order of reading; of what is read twice, the lowest has read all before."""
        said = self.summary.said if isinstance(self.summary, Ends) else None
        ends: dict[object, tuple[Direction, ...]] = {last_state: ("forward",), first_backward: ("backward",)}
        first, *others = (replace(level, ends=ends.get(said, level.ends)) for level in self.stack.levels())
        if self.order is DOUBLED:
            return (replace(first, before=None, after=None), *others)
        return tuple(map(_turned, (first, *others))) if self.order is REVERSED else (first, *others)

    def forward(self, source: Tokens | Vectors) -> Memory:
        """A memory slot for each token."""
        x = self.order.arrange(self.embedding(source))
        positions = self.order.arrange(source.positions)
        outputs, states = self.stack(x, self.stack.begin(len(x), x), positions=positions)
        outputs = self.dropout(self.order.restore(outputs))
        return Memory(outputs, outputs, source.positions, self.summary(outputs, source.positions, states))


def _turned(level: Level) -> Level:
    """The same from right to left."""
    other: dict[Direction, Direction] = {"forward": "backward", "backward": "forward"}
    carries, ends = (tuple(other[each] for each in directions) for directions in (level.carries, level.ends))
    return replace(level, carries=carries, ends=ends)
