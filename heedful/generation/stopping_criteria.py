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

InterruptCondition: TypeAlias = Callable[[], bool]
"""Whether a search is to give back what it has found so far; asked before the first token and before every step.

A `Deadline` is one, and so is `is_set` of a `threading.Event`.
"""


@final
@dataclass(frozen=True)
class Deadline:
    """True from a moment on, in seconds of `time.monotonic`."""

    end_time: float

    @classmethod
    def from_seconds(cls, seconds: float) -> Deadline:
        """So long from now."""
        return cls(time.monotonic() + seconds)

    def __call__(self) -> bool:
        """Whether it has passed."""
        return time.monotonic() >= self.end_time


def never_interrupt() -> bool:
    """A search that ends by itself."""
    return False


@runtime_checkable
class StoppingCriterion(Protocol):
    """Decides which rows have ended; what it remembers goes in and comes out, a row of it for each row."""

    def init_state(self, prefix: Int[Tensor, "N L"], /) -> State:
        """The state before the first free token; `prefix` is the forced prefix, -1 behind it."""
        ...

    def __call__(self, ids: Int[Tensor, " N"], state: State, /) -> tuple[Bool[Tensor, " N"], State]:
        """True where a row ends with this token, and the state after it; rows that had ended mean nothing."""
        ...


@final
@dataclass(frozen=True)
class StopOnToken:
    """Ends a row at this token."""

    token_id: int

    def init_state(self, _written: Int[Tensor, "N L"], /) -> None:
        """Nothing is remembered."""

    def __call__(self, ids: Int[Tensor, " N"], _state: State, /) -> tuple[Bool[Tensor, " N"], None]:
        """At the end of sentence, for example."""
        return ids == self.token_id, None


@final
@dataclass(frozen=True)
class AnyCriterion:
    """Ends a row where one of several would."""

    criteria: tuple[StoppingCriterion, ...]

    def init_state(self, written: Int[Tensor, "N L"], /) -> tuple[State, ...]:
        """The states of all."""
        return tuple(criterion.init_state(written) for criterion in self.criteria)

    def __call__(self, ids: Int[Tensor, " N"], state: tuple[State, ...], /) -> tuple[Bool[Tensor, " N"], State]:
        """All are told of every token, whichever decides."""
        is_ended, new_states = torch.zeros_like(ids, dtype=torch.bool), []
        for criterion, old_state in zip(self.criteria, state, strict=True):
            ends_here, new_state = criterion(ids, old_state)
            is_ended = is_ended | ends_here
            new_states.append(new_state)
        return is_ended, tuple(new_states)
