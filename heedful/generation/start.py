"""From a prompt and a forced prefix to the first token that is free."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.models.interface import State, Step
from heedful.values import Tokens


@dataclass(frozen=True)
class Start:
    """Where generation begins in each sentence.

    Attributes:
        logits: for the first free token.
        positions: of the first free token.
        prefix: ids forced before it; only the first `lengths` of a row count.
        log_probabilities: of the forced ids; 0 behind them.
        segments: of all tokens to come, which is that of the last one that was given; None where tokens have none.
    """

    logits: Float[Tensor, "B V"]
    positions: Int[Tensor, " B"]
    lengths: Int[Tensor, " B"]
    prefix: Int[Tensor, "B L"]
    log_probabilities: Float[Tensor, "B L"]
    segments: Int[Tensor, " B"] | None = None


def read_prompt(
    step: Step, state: State, *, prompt: Tokens, prefix: Int[Tensor, "B L"] | None = None
) -> tuple[Start, State]:
    """Read each prompt and its forced prefix as one chunk.

    A prompt may be padded anywhere (positions -1) and is followed from its largest position on. The prefix is
    read as if it belonged to the prompt, but its log-probabilities count and its ids are part of every
    hypothesis; it holds -1 behind its last id.
    """
    if prefix is None:
        prefix = prompt.ids.new_empty(len(prompt.ids), 0)
    _check(prompt, prefix)
    forced = prefix >= 0
    lengths = forced.sum(1)
    first = prompt.positions.amax(1) + 1
    places = torch.arange(prefix.size(1), device=prefix.device)
    positions = torch.where(forced, first.unsqueeze(1) + places, -1)
    newest = prompt.positions.argmax(1, keepdim=True)
    ids, positions = torch.cat((prompt.ids, prefix.clamp(min=0)), 1), torch.cat((prompt.positions, positions), 1)
    segments = following = None
    if prompt.segments is not None:
        following = prompt.segments.gather(1, newest).squeeze(1)
        segments = torch.cat((prompt.segments, following.unsqueeze(1).expand_as(prefix)), 1)
    logits, state = step(Tokens(ids, positions, segments), state)
    before = torch.cat((newest, (places + prompt.ids.size(1)).expand_as(prefix)), 1)
    rows = torch.arange(len(prefix), device=prefix.device)
    scores = _forced_scores(at_least_single(logits[rows.unsqueeze(1), before[:, :-1]]), prefix)
    last = logits[rows, before[rows, lengths]]
    return Start(last, first + lengths, lengths, prefix.clamp(min=0), scores, following), state


def at_least_single(logits: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Logits in single precision, or double where they already are: half is too coarse to rank or add."""
    return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()


def limits(limit: int | Int[Tensor, " B"], *, prompt: Tokens) -> Int[Tensor, " B"]:
    """The most new tokens of each sentence; at least 1."""
    if isinstance(limit, int):
        limit = prompt.ids.new_full((len(prompt.ids),), limit)
    if bool((limit < 1).any()):
        raise RecipeError(f"limit: {int(limit.min())} new tokens; must be at least 1")
    return limit


def check_prefix(prefix: Int[Tensor, "B L"] | None, *, eos: int) -> None:
    """Refuse a prefix that ends its sentence."""
    if prefix is not None and bool((prefix == eos).any()):
        raise RecipeError(f"prefix: contains {eos}, the end of sentence; force only what comes before it")


def _check(prompt: Tokens, prefix: Int[Tensor, "B L"]) -> None:
    empty = (prompt.positions < 0).all(1).nonzero()
    if len(empty):
        raise RecipeError(f"prompt: row {int(empty[0])} is empty; begin it with at least one token")
    forced = prefix >= 0
    if bool((forced[:, 1:] & ~forced[:, :-1]).any()):
        raise RecipeError("prefix: an id stands behind a -1; forced ids must be the first of their row")


def _forced_scores(logits: Float[Tensor, "B L V"], prefix: Int[Tensor, "B L"]) -> Float[Tensor, "B L"]:
    chosen = logits.gather(2, prefix.clamp(min=0).unsqueeze(2)).squeeze(2)
    return torch.where(prefix >= 0, chosen - logits.logsumexp(2), 0.0)
