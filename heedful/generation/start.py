"""What a search is asked, and its way from a prompt and a forced prefix to the first token that is free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation.bans import Ban
from heedful.generation.scoring import at_least_single, log_probabilities_of
from heedful.generation.stopping import Stop, Until, never
from heedful.models.interface import State, Step
from heedful.values import Tokens

if TYPE_CHECKING:
    from heedful.generation.terms import Terms


Looked: TypeAlias = Callable[[Sequence[int], Sequence[tuple[int, ...]]], Sequence[Float[Tensor, "T S"]]]
"""Of texts, by the rows of their sources, what each of their tokens and their end looked at in the source."""


@dataclass(frozen=True)
class Request:
    """What a search is asked.

    Attributes:
        prompt: what is read before anything is written.
        limit: most tokens written in each row.
        prefix: ids with which each output must begin, -1 behind them.
        streams: a number for each row that decides its chance, however rows are batched; the row's own unless given.
        stop: ends rows besides the end of sentence.
        until: tells the search to give back what it has.
        keep: where the model stands is wanted.
        bans: what may not come, besides what the search forbids; these may know the rows.
        terms: what hypotheses must hold; for beams alone.
        looked: what hypotheses looked at; None where nobody can say it.
    """

    prompt: Tokens
    limit: int | Int[Tensor, " B"]
    prefix: Int[Tensor, "B L"] | None = None
    streams: Int[Tensor, " B"] | None = None
    stop: Stop | None = None
    until: Until = never
    keep: bool = False
    bans: Sequence[Ban] = ()
    terms: Terms | None = None
    looked: Looked | None = None


@dataclass(frozen=True)
class Start:
    """Where generation begins in each sentence.

    Attributes:
        logits: for the first free token.
        positions: of the first free token.
        limits: most new tokens, the forced ones included.
        lengths: how many are forced.
        prefix: ids forced before it; only the first `lengths` of a row count.
        log_probabilities: of the forced ids; 0 behind them.
        segments: of all tokens to come, which is that of the last one that was given; None where tokens have none.
    """

    logits: Float[Tensor, "B V"]
    positions: Int[Tensor, " B"]
    limits: Int[Tensor, " B"]
    lengths: Int[Tensor, " B"]
    prefix: Int[Tensor, "B L"]
    log_probabilities: Float[Tensor, "B L"]
    segments: Int[Tensor, "B 1"] | None


def read_prompt(step: Step, state: State, request: Request, *, eos: int | None = None) -> tuple[Start, State]:
    """Read each prompt and its forced prefix as one chunk.

    A prompt may be padded anywhere (positions -1) and is followed from its largest position on. The prefix is
    read as if it belonged to the prompt, but its log-probabilities count and its ids are part of every
    hypothesis; it may hold -1 behind its last id, and not `eos`.
    """
    prompt, limits = request.prompt, request.limit
    if isinstance(limits, int):
        limits = prompt.ids.new_full((len(prompt.ids),), limits)
    prefix = prompt.ids.new_empty(len(prompt.ids), 0) if request.prefix is None else request.prefix
    _check(prompt, prefix, limits=limits, eos=eos)
    forced = prefix >= 0
    lengths = forced.sum(1)
    first = prompt.positions.amax(1) + 1
    places = torch.arange(prefix.size(1), device=prefix.device)
    positions = torch.where(forced, first.unsqueeze(1) + places, -1)
    newest = prompt.positions.argmax(1, keepdim=True)
    ids, positions = torch.cat((prompt.ids, prefix.clamp(min=0)), 1), torch.cat((prompt.positions, positions), 1)
    segments = following = None
    if prompt.segments is not None:
        following = prompt.segments.gather(1, newest)
        segments = torch.cat((prompt.segments, following.expand_as(prefix)), 1)
    logits, state = step(Tokens(ids, positions, segments), state)
    before = torch.cat((newest, (places + prompt.ids.size(1)).expand_as(prefix)), 1)
    rows = torch.arange(len(prefix), device=prefix.device)
    scores = log_probabilities_of(prefix, logits[rows.unsqueeze(1), before[:, :-1]])
    last = at_least_single(logits[rows, before[rows, lengths]])
    return Start(last, first + lengths, limits, lengths, prefix.clamp(min=0), scores, following), state


def _check(prompt: Tokens, prefix: Int[Tensor, "B L"], *, limits: Int[Tensor, " B"], eos: int | None) -> None:
    if bool((limits < 1).any()):
        raise RecipeError(f"limit: {int(limits.min())} new tokens; must be at least 1")
    if eos is not None and bool((prefix == eos).any()):
        raise RecipeError(f"prefix: contains {eos}, the end of sentence; force only what comes before it")
    empty = (prompt.positions < 0).all(1).nonzero()
    if len(empty):
        raise RecipeError(f"prompt: row {int(empty[0])} is empty; begin it with at least one token")
    forced = prefix >= 0
    if bool((forced[:, 1:] & ~forced[:, :-1]).any()):
        raise RecipeError("prefix: an id stands behind a -1; forced ids must be the first of their row")
