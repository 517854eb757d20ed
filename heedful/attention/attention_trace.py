"""Attention with all intermediate values, from queries to contexts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.attention.hooks import AttentionRole, HookPoint


@dataclass(frozen=True)
class AttentionTrace:
    """Intermediate values of one attention call; an attention without heads has one head.

    Attributes:
        query: queries as they are compared with keys.
        key: keys as the score projects them.
        value: the values to sum.
        scores: scaled scores with their bias, for all keys including hidden ones.
        visible: which query may see which key.
        weights: attention weights.
        context: weighted sums of values.
        scale: factor of the plain score.
        bias: what relative positions, or the rest of a chain, add to the scaled score; None if nothing is added.
        edges: for queries that form a chain, the probability of each pair of keys in consecutive steps.
    """

    query: Float[Tensor, "B H Q d_k"]
    key: Float[Tensor, "B H K d_key"]
    value: Float[Tensor, "B H K d_v"]
    scores: Float[Tensor, "B H Q K"]
    visible: Bool[Tensor, "B Q K"]
    weights: Float[Tensor, "B H Q K"]
    context: Float[Tensor, "B H Q d_v"]
    scale: float = 1.0
    bias: Float[Tensor, "#B H Q K"] | None = None
    edges: Float[Tensor, "B H steps K K"] | None = None


class TraceableAttention(nn.Module, ABC):
    """Base class of attentions whose weights pass through `probe` and that can return their intermediate values.

    Code that searches a model for its attentions looks for this class.
    """

    heads = 1

    def __init__(self) -> None:
        super().__init__()
        self.probe = HookPoint()

    @abstractmethod
    def compute_trace(self, *args: Any, **kwargs: Any) -> AttentionTrace:
        """Return all intermediate values for the arguments of a call of `forward`."""


def assign_roles(module: nn.Module, role: AttentionRole) -> None:
    """Assign a role to all attentions of a module that have none yet.

    The most specific caller comes first: a layer marks its cross-attentions, then the decoder marks all others as
    self-attention.
    """
    for child in module.modules():
        if isinstance(child, TraceableAttention) and child.probe.role is None:
            child.probe.role = role
