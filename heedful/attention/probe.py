"""The one place where attention weights exist as such."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn


class Probe(nn.Module):
    """An identity that attention weights pass through, so that a forward hook can read or replace them.

    While nobody is hooked on, attention may use a kernel that never forms the weights.
    """

    def forward(self, weights: Float[Tensor, "*B Q K"]) -> Float[Tensor, "*B Q K"]:
        """The same weights."""
        return weights

    @property
    def watched(self) -> bool:
        """Whether anybody reads the weights."""
        return bool(self._forward_hooks)
