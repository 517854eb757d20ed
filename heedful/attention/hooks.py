"""Hook points for attention weights, and the role of each attention in its model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeAlias

from jaxtyping import Float
from torch import Tensor, nn

AttentionKind = Literal["encoder", "decoder", "cross", "summary"]
"""Kind of an attention: encoder self-attention, decoder self-attention, cross-attention, or attention that summarises
one or two texts."""

SOURCE_AXIS, READ_AXIS, WRITTEN_AXIS = "source", "read", "written"
"""Axis of the target tokens that the decoder predicts."""

WHOLE_AXIS, PREMISE_AXIS, HYPOTHESIS_AXIS = "whole", "premise", "hypothesis"
"""Axis of the second text of a pair."""


@dataclass(frozen=True)
class AttentionRole:
    """Role of an attention in its model, with the names of its query axis and key axis.

    Attributes:
        kind: kind of attention.
        queries: name of the axis of the queries.
        keys: name of the axis of the keys.
    """

    kind: AttentionKind
    queries: str
    keys: str


ENCODER_SELF = AttentionRole("encoder", SOURCE_AXIS, SOURCE_AXIS)
DECODER_SELF = AttentionRole("decoder", WRITTEN_AXIS, READ_AXIS)
CROSS = AttentionRole("cross", WRITTEN_AXIS, SOURCE_AXIS)
SUMMARY = AttentionRole("summary", WHOLE_AXIS, SOURCE_AXIS)

WeightsHook: TypeAlias = Callable[[Tensor], Tensor | None]
"""Hook that gets the weights of a call; its result replaces them, None keeps them."""

_ACTIVE_HOOKS: ContextVar[tuple[Mapping[HookPoint, WeightsHook], ...]] = ContextVar("readers", default=())


class HookPoint(nn.Module):
    """Identity module for attention weights, so that hooks can read or replace them.

    A forward hook sees the calls of all threads; hooks of `intercept_weights` see those of their own thread or task.
    While there are no hooks, attention may use a kernel that never forms the weights.

    Args:
        role: role of the attention; set by the module that contains it (see `assign_roles`).
    """

    def __init__(self, role: AttentionRole | None = None) -> None:
        super().__init__()
        self.role = role

    def forward(self, weights: Float[Tensor, "*B Q K"]) -> Float[Tensor, "*B Q K"]:
        """Return the weights, or those that a hook returned instead."""
        for hooks in _ACTIVE_HOOKS.get():
            if (hook := hooks.get(self)) is not None and (replacement := hook(weights)) is not None:
                weights = replacement
        return weights

    @property
    def is_watched(self) -> bool:
        """Whether a hook reads the weights of this thread's calls."""
        return bool(self._forward_hooks) or any(self in hooks for hooks in _ACTIVE_HOOKS.get())


@contextmanager
def intercept_weights(hooks: Mapping[HookPoint, WeightsHook]) -> Iterator[None]:
    """Context manager: call hooks with the weights of these attentions, in this thread or asynchronous task only.

    Hooks of enclosing blocks are called first.
    """
    _ACTIVE_HOOKS.set((*_ACTIVE_HOOKS.get(), hooks))
    try:
        yield
    finally:
        _ACTIVE_HOOKS.set(tuple(active for active in _ACTIVE_HOOKS.get() if active is not hooks))


def has_weight_hooks() -> bool:
    """Return whether `intercept_weights` is active in this thread or asynchronous task."""
    return bool(_ACTIVE_HOOKS.get())
