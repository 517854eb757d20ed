"""Recurrent encoders: the order in which the source is read, and what is said of the whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from heedful.attention.dropout import Dropout
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.recurrent import CellState, RecurrentStack
from heedful.models.interface import Encoder
from heedful.values import Memory, Tokens

Summary: TypeAlias = Callable[[tuple[CellState, ...]], Float[Tensor, "B d_summary"]]
"""What a decoder starts from, made of the states in which the layers end."""


def last_output(states: tuple[CellState, ...]) -> Float[Tensor, "B d"]:
    """c = h_n of the last layer; in a bidirectional one, that of the cell from left to right."""
    return states[-1][0]


def first_backward(states: tuple[CellState, ...]) -> Float[Tensor, "B d"]:
    """Where the cell from right to left ends, at the first token (Bahdanau et al. 2015, A.2.2)."""
    return states[-1][len(states[-1]) // 2]


def both_ends(states: tuple[CellState, ...]) -> Float[Tensor, "B d_summary"]:
    """Where both cells of a bidirectional layer end, side by side."""
    return torch.cat((last_output(states), first_backward(states)), -1)


def every_layer(states: tuple[CellState, ...]) -> Float[Tensor, "B d_summary"]:
    """All that the cells of all layers remember, side by side (Sutskever et al. 2014)."""
    return torch.cat([part for state in states for part in state], -1)


class SourceOrder(ABC):
    """In which order a source is read."""

    @abstractmethod
    def arrange(self, columns: Shaped[Tensor, "B T *more"]) -> Shaped[Tensor, "B R *more"]:
        """What belongs to each token, in the order of reading."""

    @abstractmethod
    def restore(self, outputs: Float[Tensor, "B R d"]) -> Float[Tensor, "B T d"]:
        """One output for each token of the source, in its own order."""


class AsWritten(SourceOrder):
    """From the first token to the last."""

    def arrange(self, columns: Shaped[Tensor, "B T *more"]) -> Shaped[Tensor, "B R *more"]:
        """The same."""
        return columns

    def restore(self, outputs: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
        """The same."""
        return outputs


class Reversed(SourceOrder):
    """From the last token to the first, which brings the first words of both languages together (Sutskever et al. 2014,
    3.3)."""

    def arrange(self, columns: Shaped[Tensor, "B T *more"]) -> Shaped[Tensor, "B R *more"]:
        """Turned round."""
        return columns.flip(1)

    def restore(self, outputs: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
        """Turned back."""
        return outputs.flip(1)


class Doubled(SourceOrder):
    """Twice, one after the other (Zaremba and Sutskever 2014, section 5)."""

    def arrange(self, columns: Shaped[Tensor, "B T *more"]) -> Shaped[Tensor, "B R *more"]:
        """Two copies."""
        return torch.cat((columns, columns), 1)

    def restore(self, outputs: Float[Tensor, "B R d"]) -> Float[Tensor, "B T d"]:
        """What the second reading gave."""
        return outputs[:, outputs.size(1) // 2 :]


class RecurrentEncoder(Encoder[Tokens]):
    """A recurrent stack over the source: its outputs are the memory, its last states the summary.

    Args:
        embedding: of the tokens.
        stack: reads them.
        order: of reading; as written unless given.
        summary: of the whole.
        dropout: on the outputs.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        stack: RecurrentStack,
        *,
        summary: Summary,
        order: SourceOrder | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.order = order or AsWritten()
        self.summary = summary
        self.dropout = Dropout(dropout)

    def forward(self, source: Tokens) -> Memory:
        """A memory slot for each token."""
        x = self.order.arrange(self.embedding(source))
        positions = self.order.arrange(source.positions)
        outputs, states = self.stack(x, self.stack.begin(len(x), x), positions=positions)
        outputs = self.dropout(self.order.restore(outputs))
        return Memory(outputs, outputs, source.positions, self.summary(states))
