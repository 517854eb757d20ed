"""The one place where attention weights exist as such, and what is said of them there: who looks at what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeAlias

from jaxtyping import Float
from torch import Tensor, nn

AttentionKind = Literal["encoder", "decoder", "cross", "summary"]
"""An encoder's tokens to each other, a decoder's to those before them, a decoder's to what the encoder made, and what
makes one vector of a text, or of two."""

SOURCE_AXIS, READ_AXIS, WRITTEN_AXIS = "source", "read", "written"
"""The axes of text: what the encoder read; what the decoder had read when it wrote; what it wrote then."""

WHOLE_AXIS, PREMISE_AXIS, HYPOTHESIS_AXIS = "whole", "premise", "hypothesis"
"""The axes of summaries: the text as one, and of two texts the first and the second."""


@dataclass(frozen=True)
class AttentionRole:
    """Who looks at what in an attention.

    Attributes:
        kind: of the attention in its model.
        queries: name of the axis of those who look.
        keys: name of the axis of what is looked at.
    """

    kind: AttentionKind
    queries: str
    keys: str


ENCODER_SELF = AttentionRole("encoder", SOURCE_AXIS, SOURCE_AXIS)
DECODER_SELF = AttentionRole("decoder", WRITTEN_AXIS, READ_AXIS)
CROSS = AttentionRole("cross", WRITTEN_AXIS, SOURCE_AXIS)
SUMMARY = AttentionRole("summary", WHOLE_AXIS, SOURCE_AXIS)

WeightsHook: TypeAlias = Callable[[Tensor], Tensor | None]
"""Gets the weights of a call; what it returns takes their place, None leaves them."""

_ACTIVE_HOOKS: ContextVar[tuple[Mapping[HookPoint, WeightsHook], ...]] = ContextVar("readers", default=())


class HookPoint(nn.Module):
    """An identity that attention weights pass through, so that they can be read or replaced: by a forward hook, which
    hears the calls of all threads, or inside `intercept_weights`, which hears those of its own.

    While nobody reads, attention may use a kernel that never forms the weights.

    Args:
        role: who looks at what; whoever puts an attention into a model says it (see `declare`).
    """

    def __init__(self, role: AttentionRole | None = None) -> None:
        super().__init__()
        self.role = role

    def forward(self, weights: Float[Tensor, "*B Q K"]) -> Float[Tensor, "*B Q K"]:
        """The same weights, or those that a reader puts in their place."""
        for hooks in _ACTIVE_HOOKS.get():
            if (hook := hooks.get(self)) is not None and (replacement := hook(weights)) is not None:
                weights = replacement
        return weights

    @property
    def is_watched(self) -> bool:
        """Whether anybody reads the weights of this thread's calls."""
        return bool(self._forward_hooks) or any(self in hooks for hooks in _ACTIVE_HOOKS.get())


@contextmanager
def intercept_weights(hooks: Mapping[HookPoint, WeightsHook]) -> Iterator[None]:
    """Inside the block the weights of some attentions are read, in the calls of this thread or asynchronous task alone.

    Readers of blocks around this one go first.
    """
    _ACTIVE_HOOKS.set((*_ACTIVE_HOOKS.get(), hooks))
    try:
        yield
    finally:
        _ACTIVE_HOOKS.set(tuple(active for active in _ACTIVE_HOOKS.get() if active is not hooks))


def has_weight_hooks() -> bool:
    """Whether the weights of some attention are read in this thread or asynchronous task."""
    return bool(_ACTIVE_HOOKS.get())
