"""Mask functions: which positions may see which; position -1 is padding, which sees nothing and is never seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

MaskFunction = Callable[[Int[Tensor, "B Q 1"], Int[Tensor, "B 1 K"]], Bool[Tensor, "B Q K"]]
"""Maps positions of queries and of keys to a boolean mask, True where the query sees the key."""


def bidirectional(query: Int[Tensor, "B Q 1"], key: Int[Tensor, "B 1 K"]) -> Bool[Tensor, "B Q K"]:
    """Let every query see every existing key, as in encoders and in attention to a memory."""
    return (key >= 0).expand(-1, query.shape[1], -1)


def causal(query: Int[Tensor, "B Q 1"], key: Int[Tensor, "B 1 K"]) -> Bool[Tensor, "B Q K"]:
    """Let a query see the keys up to its own position (Vaswani et al. 2017, 3.2.3)."""
    return (key >= 0) & (key <= query)


@dataclass(frozen=True)
class SlidingWindow:
    """Mask function: a query sees keys at most `before` positions back and `after` ahead; attention computes it by
    `mask.BandedMask`.
    """

    before: int
    after: int

    def __call__(self, query: Int[Tensor, "B Q 1"], key: Int[Tensor, "B 1 K"]) -> Bool[Tensor, "B Q K"]:
        """Return which keys are inside the window of each query."""
        return (key >= 0) & (key >= query - self.before) & (key <= query + self.after)


def sliding_window(before: int, after: int) -> SlidingWindow:
    """Create the mask function of restricted self-attention (Vaswani et al. 2017, table 1, r)."""
    return SlidingWindow(before, after)
