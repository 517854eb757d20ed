"""The one place where attention weights exist as such, and what is said of them there: who looks at what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeAlias

from jaxtyping import Float
from torch import Tensor, nn

Role = Literal["encoder", "decoder", "cross", "summary"]
"""An encoder's tokens to each other, a decoder's to those before them, a decoder's to what the encoder made, and what
makes one vector of a text, or of two."""

SOURCE, READ, WRITTEN = "source", "read", "written"
"""The axes of text: what the encoder read; what the decoder had read when it wrote; what it wrote then."""

WHOLE, PREMISE, HYPOTHESIS = "whole", "premise", "hypothesis"
"""The axes of summaries: the text as one, and of two texts the first and the second."""


@dataclass(frozen=True)
class Look:
    """Who looks at what in an attention.

    Attributes:
        role: of the attention in its model.
        queries: name of the axis of those who look.
        keys: name of the axis of what is looked at.
    """

    role: Role
    queries: str
    keys: str


READING = Look("encoder", SOURCE, SOURCE)
WRITING = Look("decoder", WRITTEN, READ)
ACROSS = Look("cross", WRITTEN, SOURCE)
SUMMING = Look("summary", WHOLE, SOURCE)

Read: TypeAlias = Callable[[Tensor], Tensor | None]
"""Gets the weights of a call; what it returns takes their place, None leaves them."""

_READERS: ContextVar[tuple[Mapping[Probe, Read], ...]] = ContextVar("readers", default=())


class Probe(nn.Module):
    """An identity that attention weights pass through, so that they can be read or replaced: by a forward hook, which
    hears the calls of all threads, or inside `reading`, which hears those of its own.

    While nobody reads, attention may use a kernel that never forms the weights.

    Args:
        look: who looks at what; whoever puts an attention into a model says it (see `declare`).
    """

    def __init__(self, look: Look | None = None) -> None:
        super().__init__()
        self.look = look

    def forward(self, weights: Float[Tensor, "*B Q K"]) -> Float[Tensor, "*B Q K"]:
        """The same weights, or those that a reader puts in their place."""
        for readers in _READERS.get():
            if (read := readers.get(self)) is not None and (instead := read(weights)) is not None:
                weights = instead
        return weights

    @property
    def watched(self) -> bool:
        """Whether anybody reads the weights of this thread's calls."""
        return bool(self._forward_hooks) or any(self in readers for readers in _READERS.get())


@contextmanager
def reading(readers: Mapping[Probe, Read]) -> Iterator[None]:
    """Inside the block the weights of some attentions are read, in the calls of this thread or asynchronous task alone.

    Readers of blocks around this one go first.
    """
    _READERS.set((*_READERS.get(), readers))
    try:
        yield
    finally:
        _READERS.set(tuple(each for each in _READERS.get() if each is not readers))


def anybody_reads() -> bool:
    """Whether the weights of some attention are read in this thread or asynchronous task."""
    return bool(_READERS.get())
