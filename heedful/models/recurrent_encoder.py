"""Recurrent encoders: the order in which the source is read, and what is said of the whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from heedful.attention.dropout import Dropout
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.recurrent import CellState, RecurrentStack
from heedful.models.encoders import Summary
from heedful.models.interface import Encoder
from heedful.values import Memory, Tokens


@final
class LastState(Summary):
    """c = h_n of the last layer; in a bidirectional one, that of the cell from left to right."""

    def forward(
        self, hidden: Float[Tensor, "B T d"], positions: Int[Tensor, "B T"], ends: tuple[CellState, ...] = ()
    ) -> Float[Tensor, "B d_summary"]:
        """Of the last token."""
        assert ends, "only a recurrent encoder has states in which it ends"
        return ends[-1][0]


@final
class FirstBackward(Summary):
    """Where the cell from right to left ends, at the first token (Bahdanau et al. 2015, A.2.2)."""

    def forward(
        self, hidden: Float[Tensor, "B T d"], positions: Int[Tensor, "B T"], ends: tuple[CellState, ...] = ()
    ) -> Float[Tensor, "B d_summary"]:
        """Of the first token."""
        assert ends, "only a recurrent encoder has states in which it ends"
        return ends[-1][len(ends[-1]) // 2]


@final
class BothEnds(Summary):
    """Where both cells of a bidirectional layer end, side by side."""

    def forward(
        self, hidden: Float[Tensor, "B T d"], positions: Int[Tensor, "B T"], ends: tuple[CellState, ...] = ()
    ) -> Float[Tensor, "B d_summary"]:
        """Of the last token, then of the first."""
        assert ends, "only a recurrent encoder has states in which it ends"
        return torch.cat((ends[-1][0], ends[-1][len(ends[-1]) // 2]), -1)


@final
class EveryLayer(Summary):
    """All that the cells of all layers remember, side by side (Sutskever et al. 2014)."""

    def forward(
        self, hidden: Float[Tensor, "B T d"], positions: Int[Tensor, "B T"], ends: tuple[CellState, ...] = ()
    ) -> Float[Tensor, "B d_summary"]:
        """From the lowest layer to the highest."""
        assert ends, "only a recurrent encoder has states in which it ends"
        return torch.cat([part for state in ends for part in state], -1)


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
        return Memory(outputs, outputs, source.positions, self.summary(outputs, source.positions, states))
