"""Who may see whom, as functions of positions; position -1 is nobody and is seen by nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

MaskFunction = Callable[[Int[Tensor, "B Q 1"], Int[Tensor, "B 1 K"]], Bool[Tensor, "B Q K"]]
"""From positions of queries and of keys to who sees whom."""


def bidirectional(query: Int[Tensor, "B Q 1"], key: Int[Tensor, "B 1 K"]) -> Bool[Tensor, "B Q K"]:
    """Every query sees every key that exists: encoders, and decoders looking at a memory."""
    return (key >= 0).expand(-1, query.shape[1], -1)


def causal(query: Int[Tensor, "B Q 1"], key: Int[Tensor, "B 1 K"]) -> Bool[Tensor, "B Q K"]:
    """A query sees the keys up to its own position (Vaswani et al. 2017, 3.2.3)."""
    return (key >= 0) & (key <= query)


@dataclass(frozen=True)
class SlidingWindow:
    """Keys at most `before` back and `after` ahead; attention knows how to be quick about it (`sight.Band`)."""

    before: int
    after: int

    def __call__(self, query: Int[Tensor, "B Q 1"], key: Int[Tensor, "B 1 K"]) -> Bool[Tensor, "B Q K"]:
        """Who is near enough."""
        return (key >= 0) & (key >= query - self.before) & (key <= query + self.after)


def sliding_window(before: int, after: int) -> SlidingWindow:
    """Restricted self-attention: keys at most `before` back and `after` ahead (Vaswani et al. 2017, table 1, r)."""
    return SlidingWindow(before, after)
