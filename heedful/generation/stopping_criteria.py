"""Criteria that end a row, and conditions that interrupt a whole search."""

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
"""Function that returns True to interrupt a search, which then returns what it has found.

Called before the first token and before every step. A `Deadline` is one, and so is `is_set` of a `threading.Event`.
"""


@final
@dataclass(frozen=True)
class Deadline:
    """Condition that is True from a time of `time.monotonic` on, in seconds."""

    end_time: float

    @classmethod
    def from_seconds(cls, seconds: float) -> Deadline:
        """Return the deadline that many seconds from now."""
        return cls(time.monotonic() + seconds)

    def __call__(self) -> bool:
        """Return whether the deadline has passed."""
        return time.monotonic() >= self.end_time


def never_interrupt() -> bool:
    """Return False: the search runs to its end."""
    return False


@runtime_checkable
class StoppingCriterion(Protocol):
    """Criterion that decides which rows have ended; its state has one row for each row."""

    def init_state(self, prefix: Int[Tensor, "N L"], /) -> State:
        """Return the state before the first free token; `prefix` is the forced prefix, -1 after it."""
        ...

    def __call__(self, ids: Int[Tensor, " N"], state: State, /) -> tuple[Bool[Tensor, " N"], State]:
        """Return True where a row ends with its new token, and the next state; values of ended rows are ignored."""
        ...


@final
@dataclass(frozen=True)
class StopOnToken:
    """Criterion that ends a row at one token, such as the end of sentence."""

    token_id: int

    def init_state(self, _written: Int[Tensor, "N L"], /) -> None:
        """Return None: this criterion has no state."""

    def __call__(self, ids: Int[Tensor, " N"], _state: State, /) -> tuple[Bool[Tensor, " N"], None]:
        """Return which ids are the token."""
        return ids == self.token_id, None


@final
@dataclass(frozen=True)
class AnyCriterion:
    """Criterion that ends a row where any of several criteria does."""

    criteria: tuple[StoppingCriterion, ...]

    def init_state(self, written: Int[Tensor, "N L"], /) -> tuple[State, ...]:
        """Return the states of all criteria."""
        return tuple(criterion.init_state(written) for criterion in self.criteria)

    def __call__(self, ids: Int[Tensor, " N"], state: tuple[State, ...], /) -> tuple[Bool[Tensor, " N"], State]:
        """Feed the tokens to all criteria; return where any of them ends a row."""
        is_ended, new_states = torch.zeros_like(ids, dtype=torch.bool), []
        for criterion, old_state in zip(self.criteria, state, strict=True):
            ends_here, new_state = criterion(ids, old_state)
            is_ended = is_ended | ends_here
            new_states.append(new_state)
        return is_ended, tuple(new_states)
