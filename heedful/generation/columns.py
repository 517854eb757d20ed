"""The loop of greedy search, sampling and streams: one more token of every row that has not ended."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.errors import RunError
from heedful.generation.history import History, Manner
from heedful.generation.hypotheses import no_token
from heedful.generation.pick import Pick, Progress
from heedful.generation.ranking import normalisers
from heedful.generation.repetition import penalised
from heedful.generation.start import Start, at_least_single
from heedful.generation.stopping import Until
from heedful.models.interface import State, Step
from heedful.values import Rows, Tokens, join, select

_WORTH_DROPPING = 0.25  # of the sentences done, as in beam search


@dataclass(frozen=True)
class Live:
    """The rows that still grow; `limits` and `lengths` count the forced prefix."""

    rows: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    lengths: Int[Tensor, " N"]
    limits: Int[Tensor, " N"]
    streams: Int[Tensor, " N"]
    done: Bool[Tensor, " N"]
    segments: Int[Tensor, " N"] | None = None


@dataclass(frozen=True)
class Column:
    """One more token of each row that had not ended; elsewhere `position` is -1."""

    rows: Int[Tensor, " N"]
    ids: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    log_probabilities: Float[Tensor, " N"]


@dataclass(frozen=True)
class Rest:
    """What is left when no token comes any more.

    Attributes:
        states: of the model, and the rows to which they belong; only the last ones unless all were to be kept.
        cut: rows that would have gone on.
    """

    states: tuple[tuple[Int[Tensor, " _"], State], ...]
    cut: Int[Tensor, " _"]

    def state(self, order: Int[Tensor, " M"]) -> State:
        """Of the rows in this order, each of which is there once."""
        rows = torch.cat([rows for rows, _ in self.states])
        whole = join([state for _, state in self.states])
        places = rows.argsort()[order]
        if torch.equal(places, torch.arange(len(places), device=places.device)):
            return whole
        return select(whole, places)


def begin(start: Start, limited: Int[Tensor, " B"], *, copies: int, streams: Int[Tensor, " B"] | None) -> Live:
    """`copies` rows of each sentence behind its prompt; a sentence without a stream of chance has its number."""
    rows = torch.arange(len(limited) * copies, device=limited.device)
    if streams is None:
        streams = rows[: len(limited)]
    return Live(
        rows=rows,
        positions=start.positions.repeat_interleave(copies),
        lengths=start.lengths.repeat_interleave(copies),
        limits=limited.repeat_interleave(copies),
        # far apart, so that the samples of one sentence are not the first ones of the next
        streams=(streams << 20).repeat_interleave(copies) + rows % copies,
        done=(start.lengths >= limited).repeat_interleave(copies),
        segments=None if start.segments is None else start.segments.repeat_interleave(copies),
    )


def columns_of(
    step: Step,
    state: tuple[State, History],
    logits: Float[Tensor, "N V"],
    *,
    live: Live,
    copies: int,
    pick: Pick,
    manner: Manner,
    until: Until,
    keep: bool,
) -> Generator[Column, None, Rest]:
    """A token for every live row until all have ended or are told to; ended sentences are dropped on the way."""
    (read, history), parted = state, []
    running = not bool(live.done.all()) and not until()
    while running:
        live, column, history, impossible = _advance(live, at_least_single(logits), history, pick=pick, manner=manner)
        sentences = live.done.view(-1, copies).all(1)
        done, failed = torch.stack((sentences.sum(), impossible.any().long())).tolist()
        if failed:
            raise RunError(no_token(int(live.rows[impossible][0]) // copies))
        yield column
        running = done < len(sentences) and not until()
        if running:
            if done >= _WORTH_DROPPING * len(sentences):
                if keep and done:
                    parted.append(select((live.rows, read), Rows.keep(sentences.nonzero().squeeze(1), copies)))
                kept = Rows.keep((~sentences).nonzero().squeeze(1), copies)
                live, column, read, history = select((live, column, read, history), kept)
            logits, read = step(_next(live, column), read)
            logits = logits[:, -1]
    return Rest((*parted, (live.rows, read)), live.rows[~live.done])


def drained(columns: Generator[Column, None, Rest]) -> tuple[list[Column], Rest]:
    """All columns at once."""
    found = []
    while True:
        try:
            found.append(next(columns))
        except StopIteration as end:
            return found, end.value


def _next(live: Live, column: Column) -> Tokens:
    """What is read of a column: tokens of rows that go on."""
    positions = torch.where(live.done, -1, column.positions).unsqueeze(1)
    return Tokens(column.ids.unsqueeze(1), positions, None if live.segments is None else live.segments.unsqueeze(1))


def _advance(
    live: Live, logits: Float[Tensor, "N V"], history: History, *, pick: Pick, manner: Manner
) -> tuple[Live, Column, History, Bool[Tensor, " N"]]:
    """The rows after one more token, that token, the history with it, and where none was possible."""
    totals = normalisers(logits)
    changed = penalised(logits, history.penalties, penalties=manner.penalties)
    picked = pick(changed, Progress(live.lengths, live.streams))
    ids = picked.clamp(min=0)
    values = logits.gather(1, ids.unsqueeze(1)).squeeze(1) - totals
    column = Column(live.rows, ids, torch.where(live.done, -1, live.positions), values)
    lengths = live.lengths + 1
    ended, history = manner.ended(ids, history)
    done = live.done | ended | (lengths >= live.limits)
    impossible = (picked < 0) & ~live.done
    return replace(live, lengths=lengths, positions=live.positions + 1, done=done), column, history, impossible
