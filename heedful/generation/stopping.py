"""When a row ends, and when a whole search does."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heedful.models.interface import State

Until: TypeAlias = Callable[[], bool]
"""Whether a search is to give back what it has found so far; asked before the first token and before every step.

A `Deadline` is one, and so is `is_set` of a `threading.Event`.
"""


@final
@dataclass(frozen=True)
class Deadline:
    """True from a moment on, in seconds of `time.monotonic`."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """So long from now."""
        return cls(time.monotonic() + seconds)

    def __call__(self) -> bool:
        """Whether it has passed."""
        return time.monotonic() >= self.at


def never() -> bool:
    """A search that ends by itself."""
    return False


@runtime_checkable
class Stop(Protocol):
    """Decides which rows have ended; what it remembers goes in and comes out, a row of it for each row."""

    def begin(self, written: Int[Tensor, "N L"], /) -> State:
        """The state before the first free token; `written` is the forced prefix, -1 behind it."""
        ...

    def __call__(self, ids: Int[Tensor, " N"], state: State, /) -> tuple[Bool[Tensor, " N"], State]:
        """True where a row ends with this token, and the state after it; rows that had ended mean nothing."""
        ...


@final
@dataclass(frozen=True)
class AtToken:
    """Ends a row at this token."""

    id: int

    def begin(self, _written: Int[Tensor, "N L"], /) -> None:
        """Nothing is remembered."""

    def __call__(self, ids: Int[Tensor, " N"], _state: State, /) -> tuple[Bool[Tensor, " N"], None]:
        """At the end of sentence, for example."""
        return ids == self.id, None


@final
@dataclass(frozen=True)
class AnyOf:
    """Ends a row where one of several would."""

    stops: tuple[Stop, ...]

    def begin(self, written: Int[Tensor, "N L"], /) -> tuple[State, ...]:
        """The states of all."""
        return tuple(stop.begin(written) for stop in self.stops)

    def __call__(self, ids: Int[Tensor, " N"], state: tuple[State, ...], /) -> tuple[Bool[Tensor, " N"], State]:
        """All are told of every token, whichever decides."""
        ended, after = torch.zeros_like(ids, dtype=torch.bool), []
        for stop, own in zip(self.stops, state, strict=True):
            here, newer = stop(ids, own)
            ended = ended | here
            after.append(newer)
        return ended, tuple(after)
