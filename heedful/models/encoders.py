"""Encoders: who makes the memory."""

from __future__ import annotations

from torch import Tensor

from heedful.blocks.transformer import TransformerStack
from heedful.models.interface import Encoder
from heedful.values import Memory, Tokens


class TransformerEncoder(Encoder[Tokens]):
    """A stack whose tokens see each other; the summary is the mean of the tokens (Vaswani et al. 2017, 3.1)."""

    def __init__(self, stack: TransformerStack) -> None:
        super().__init__()
        self.stack = stack

    def forward(self, source: Tokens) -> Memory:
        """A memory slot for each token."""
        hidden: Tensor
        hidden, _ = self.stack(source, self.stack.begin(None))
        real = (source.positions >= 0).unsqueeze(-1)
        summary = (hidden * real).sum(1) / real.sum(1).clamp(min=1)
        return Memory(hidden, hidden, source.positions, summary)
