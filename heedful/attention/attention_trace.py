"""An attention, slowly: everything between its queries and its contexts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.attention.hooks import AttentionRole, HookPoint


@dataclass(frozen=True)
class AttentionTrace:
    """What an attention computes on its way; a single attention has one head.

    Attributes:
        query: as it is compared with keys.
        key: likewise, as the score projects it.
        value: what is summed.
        scores: scaled and with their bias, of all keys, also of hidden ones.
        visible: who may see whom.
        weights: of the values.
        context: the weighted sums.
        scale: what the plain score was multiplied by.
        bias: what relative positions add to the scaled score, or the rest of a chain; None where nothing is added.
        edges: of queries that form a chain, how probable it is that one chooses a key and the next one another.
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
    """An attention whose weights pass through its `probe`, and that can say what it computes.

    What looks for the attentions of a model asks for this class.
    """

    heads = 1

    def __init__(self) -> None:
        super().__init__()
        self.probe = HookPoint()

    @abstractmethod
    def compute_trace(self, *args: Any, **kwargs: Any) -> AttentionTrace:
        """All that lies between queries and contexts, for the arguments of a call."""


def assign_roles(module: nn.Module, role: AttentionRole) -> None:
    """Says who looks at what in the attentions of a part that have not been told yet.

    So whoever knows best comes first: a layer says which of its attentions look at a memory, the decoder above says of
    all others that they look at what was read before.
    """
    for child in module.modules():
        if isinstance(child, TraceableAttention) and child.probe.role is None:
            child.probe.role = role
