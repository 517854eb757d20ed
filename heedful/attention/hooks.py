"""Hook points for attention weights, the role of each attention, and traces of all its intermediate values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

AttentionKind = Literal["encoder", "decoder", "cross", "summary"]
"""Kind of an attention: encoder self-attention, decoder self-attention, cross-attention, or attention that summarises
one or two texts."""

SOURCE_AXIS, READ_AXIS, WRITTEN_AXIS = "source", "read", "written"
"""Axis of the target tokens that the decoder predicts."""

WHOLE_AXIS, PREMISE_AXIS, HYPOTHESIS_AXIS = "whole", "premise", "hypothesis"
"""Axis of the second text of a pair."""

PATCH_AXIS = "patches"
"""Axis of a class token and the patches of a picture behind it."""


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
PATCHES = AttentionRole("encoder", PATCH_AXIS, PATCH_AXIS)

WeightsHook: TypeAlias = Callable[[Tensor], Tensor | None]
"""Hook that gets the weights of a call; its result replaces them, None keeps them."""

_ACTIVE_HOOKS: ContextVar[tuple[Mapping[HookPoint, WeightsHook], ...]] = ContextVar("readers", default=())


def _get_active_hooks() -> tuple[Mapping[HookPoint, WeightsHook], ...]:
    """Return the hooks of this thread or asynchronous task.

    Compiled code cannot read a `ContextVar`. It has none, because callers ask `has_inner_hooks` before they run it.
    """
    return () if torch.compiler.is_compiling() else _ACTIVE_HOOKS.get()


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
        for hooks in _get_active_hooks():
            if (hook := hooks.get(self)) is not None and (replacement := hook(weights)) is not None:
                weights = replacement
        return weights

    @property
    def is_watched(self) -> bool:
        """Whether a hook reads the weights of this thread's calls."""
        return bool(self._forward_hooks) or any(self in hooks for hooks in _get_active_hooks())


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
    return bool(_get_active_hooks())


def has_inner_hooks(module: nn.Module) -> bool:
    """Return whether a hook can read what the parts of a module compute: `intercept_weights` is active in this thread
    or task, for any module, or a part of the module has a forward hook or a forward pre-hook.
    """
    parts = islice(module.modules(), 1, None)
    return has_weight_hooks() or any(part._forward_hooks or part._forward_pre_hooks for part in parts)


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
