"""Requests of a search: prompts, limits, stopping criteria, and the prefill that reads the prompts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation.lexical_constraints import LexicalConstraints
from heedful.generation.logits_masks import LogitsMask
from heedful.generation.results import PrefillOutput, gather_log_probabilities, upcast_logits
from heedful.models.interface import State, Step
from heedful.tensors import Tokens

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


AttentionLookup: TypeAlias = Callable[[Sequence[int], Sequence[tuple[int, ...]]], Sequence[Float[Tensor, "T S"]]]
"""Function that returns the attention of given outputs to their sources, [tokens + end, source] for each."""


@dataclass(frozen=True)
class GenerationRequest:
    """Inputs and options of one call of a search.

    Attributes:
        prompt: tokens that are read before anything is written.
        max_new_tokens: largest number of new tokens of each row.
        prefix: ids with which each output must begin, -1 after them.
        rng_streams: number of the random stream of each row, which does not depend on batching; the row's index unless
            given.
        stop: ends rows besides the end of sentence.
        until: when it returns True, the search returns what it has.
        keep_state: whether the model state after the outputs is returned.
        logits_masks: masks besides those of the search; these may know the rows.
        constraints: terms that hypotheses must contain; for beam search only.
        attention_lookup: returns the attention of hypotheses to the source; None where that is not available.
    """

    prompt: Tokens
    max_new_tokens: int | Int[Tensor, " B"]
    prefix: Int[Tensor, "B L"] | None = None
    rng_streams: Int[Tensor, " B"] | None = None
    stop: StoppingCriterion | None = None
    until: InterruptCondition = never_interrupt
    keep_state: bool = False
    logits_masks: Sequence[LogitsMask] = ()
    constraints: LexicalConstraints | None = None
    attention_lookup: AttentionLookup | None = None


def prefill_prompt(
    step: Step, state: State, request: GenerationRequest, *, eos: int | None = None
) -> tuple[PrefillOutput, State]:
    """Read each prompt of a request and its forced prefix as one chunk with the model's `step`; return the prefill
    output and the model state.

    A prompt may be padded anywhere (positions -1); generation goes on from its largest position. The prefix is read as
    if it belonged to the prompt, but its log-probabilities count and its ids are part of every hypothesis. It may have
    -1 after its last id, and must not contain `eos`.
    """
    prompt, limits = request.prompt, request.max_new_tokens
    if isinstance(limits, int):
        limits = prompt.ids.new_full((len(prompt.ids),), limits)
    prefix = prompt.ids.new_empty(len(prompt.ids), 0) if request.prefix is None else request.prefix
    _check_inputs(prompt, prefix, limits=limits, eos=eos)
    is_forced = prefix >= 0
    lengths = is_forced.sum(1)
    first_positions = prompt.positions.amax(1) + 1
    columns = torch.arange(prefix.size(1), device=prefix.device)
    positions = torch.where(is_forced, first_positions.unsqueeze(1) + columns, -1)
    last_prompt_columns = prompt.positions.argmax(1, keepdim=True)
    ids, positions = torch.cat((prompt.ids, prefix.clamp(min=0)), 1), torch.cat((prompt.positions, positions), 1)
    segments = next_segments = None
    if prompt.segments is not None:
        next_segments = prompt.segments.gather(1, last_prompt_columns)
        segments = torch.cat((prompt.segments, next_segments.expand_as(prefix)), 1)
    logits, state = step(Tokens(ids, positions, segments), state)
    previous_columns = torch.cat((last_prompt_columns, (columns + prompt.ids.size(1)).expand_as(prefix)), 1)
    rows = torch.arange(len(prefix), device=prefix.device)
    prefix_scores = gather_log_probabilities(prefix, logits[rows.unsqueeze(1), previous_columns[:, :-1]])
    last_logits = upcast_logits(logits[rows, previous_columns[rows, lengths]])
    return PrefillOutput(
        last_logits, rows, first_positions + lengths, limits, lengths, prefix.clamp(min=0), prefix_scores, next_segments
    ), state


def _check_inputs(prompt: Tokens, prefix: Int[Tensor, "B L"], *, limits: Int[Tensor, " B"], eos: int | None) -> None:
    """Raise `RecipeError` if a limit is below 1, a prompt is empty, or a forced prefix contains `eos` or has an id
    after a -1.
    """
    if bool((limits < 1).any()):
        raise RecipeError(f"limit: {int(limits.min())} new tokens; must be at least 1")
    if eos is not None and bool((prefix == eos).any()):
        raise RecipeError(f"prefix: contains {eos}, the end of sentence; force only what comes before it")
    empty = (prompt.positions < 0).all(1).nonzero()
    if len(empty):
        raise RecipeError(f"prompt: row {int(empty[0])} is empty; begin it with at least one token")
    is_forced = prefix >= 0
    if bool((is_forced[:, 1:] & ~is_forced[:, :-1]).any()):
        raise RecipeError("prefix: an id comes after a -1; forced ids must be the first of their row")
