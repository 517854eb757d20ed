"""Greedy search, sampling and streams, and the loop that they share: one more token of every row that goes on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation import native
from heedful.generation.bans import Ban
from heedful.generation.history import History, Manner
from heedful.generation.hypotheses import After, Ended, Found, NoTokenError
from heedful.generation.penalties import Penalty
from heedful.generation.pick import Best, Forbid, Pick, Progress
from heedful.generation.ranking import normalisers
from heedful.generation.scoring import at_least_single
from heedful.generation.start import Request, Start, read_prompt
from heedful.generation.stopping import AtToken, Stop, Until, never
from heedful.models.interface import State, Step, Strides
from heedful.values import Bounds, Rows, Tokens, join, select

_WORTH_DROPPING = 0.25  # of the sentences done, as in beam search
_AHEAD: Final = 64
"""Tokens of all rows that are found at one time, where the engine knows how; rows that are done are dropped between."""


@dataclass(frozen=True)
class Live:
    """The rows that still grow; `limits` and `lengths` count the forced prefix."""

    rows: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    lengths: Int[Tensor, " N"]
    limits: Int[Tensor, " N"]
    streams: Int[Tensor, " N"]
    done: Bool[Tensor, " N"]
    segments: Int[Tensor, "N 1"] | None


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


@final
class _Columns:
    """Columns as they come; `rest` is what is left when all have come."""

    rest: Rest

    def __init__(self, columns: Generator[Column, None, Rest]) -> None:
        self._columns = columns

    def __iter__(self) -> Iterator[Column]:
        self.rest = yield from self._columns


@torch.inference_mode()
def found_by_sampling(
    step: Step, state: State, request: Request, *, eos: int, pick: Pick, n: int, manner: Manner
) -> Found:
    """`n` answers for each sentence, and if it is to be kept, where the model stands behind each."""
    if request.terms is not None:
        raise RecipeError("terms that must be written: only a beam can look for them; give it a width, as in --beam 5")
    if n < 1:
        raise RecipeError(f"samples: {n} of each sentence; must be at least 1")
    start, state = read_prompt(step, state, request, eos=eos)
    columns = _Columns(_grown(step, state, request, start=start, copies=n, pick=pick, manner=manner, ahead=True))
    ended, order = _ended(list(columns), columns.rest, start, eos=eos, copies=n)
    if not request.keep:
        return Found(ended.listed(start))
    first = start.positions.repeat_interleave(n)
    return Found(ended.listed(start), After.of(columns.rest.state(order), ended.written(start), first=first))


def _grown(
    step: Step, read: State, request: Request, *, start: Start, copies: int, pick: Pick, manner: Manner, ahead: bool
) -> Generator[Column, None, Rest]:
    """A token for every live row until all have ended or are told to; ended sentences are dropped on the way.

    Args:
        step: of the engine.
        read: the engine's state behind the prompts.
        request: what is asked.
        start: behind the prompts.
        copies: rows of each sentence.
        pick: takes each token.
        manner: how rows are changed and ended.
        ahead: several tokens may be found before the first of them comes.
    """
    live, history = begun(start, streams=request.streams), manner.begin(request.prompt, start)
    strider = _strider(step, request, pick=pick, manner=manner) if ahead and copies == 1 else None
    logits, parted, until = start.logits, [], request.until
    if copies > 1:
        branches = Rows.branch(len(logits), copies, device=logits.device)
        read, live, history, logits = select((read, live, history, logits), branches)
        rows = torch.arange(len(logits), device=logits.device)
        live = replace(live, rows=rows, streams=live.streams + rows % copies)
    running, strode = not bool(live.done.all()) and not until(), None
    while running:
        if strode is None:
            live, column, history, (done, failed) = grown_by_one(
                live, at_least_single(logits), history, pick=pick, manner=manner, copies=copies
            )
            columns = [column]
        else:
            live, columns, read, (done, failed) = strode
        yield from columns if failed < 0 else columns[:-1]
        if failed >= 0:
            raise NoTokenError(int(live.rows[failed]) // copies)
        column = columns[-1]
        count = len(live.done) // copies
        running = done < count and not until()
        if running:
            if done >= _WORTH_DROPPING * count:
                sentences = live.done.view(-1, copies).all(1)
                if request.keep and done:
                    parted.append(select((live.rows, read), Rows.keep(sentences.nonzero().squeeze(1), copies)))
                kept = Rows.keep((~sentences).nonzero().squeeze(1), copies)
                live, column, read, history = select((live, column, read, history), kept)
            strode = None if strider is None else strider(live, column, read)
            if strode is None:
                logits, read = step(_next(live, column), read)
                logits = logits[:, -1]
    return Rest((*parted, (live.rows, read)), live.rows[~live.done])


def begun(start: Start, *, streams: Int[Tensor, " B"] | None) -> Live:
    """A row of each sentence behind its prompt; a sentence without a stream of chance has its number."""
    rows = torch.arange(len(start.lengths), device=start.lengths.device)
    # far apart, so that the samples of one sentence are not the first ones of the next
    chance = (rows if streams is None else streams) << 20
    done = start.lengths >= start.limits
    return Live(rows, start.positions, start.lengths, start.limits, chance, done, start.segments)


_Strode: TypeAlias = tuple[Live, list[Column], State, list[int]]


def _strider(
    step: Step, request: Request, *, pick: Pick, manner: Manner
) -> Callable[[Live, Column, State], _Strode | None] | None:
    """Takes several steps at once: of greedy search, where nobody is asked between them and the engine knows how."""
    engine, stop = getattr(step, "__self__", None), manner.stop
    asked = request.until is not never or not manner.free
    if asked or not (isinstance(engine, Strides) and isinstance(stop, AtToken) and isinstance(pick, Best)):
        return None
    if not all(isinstance(each, Forbid) for each in pick.filters):
        return None
    ids = sorted({each for forbid in pick.filters if isinstance(forbid, Forbid) for each in forbid.ids})
    forbidden = torch.tensor(ids, dtype=torch.long)

    def stride(live: Live, column: Column, read: State) -> _Strode | None:
        steps = min(_AHEAD // len(live.done), int((live.limits - live.lengths).amax()))
        if steps < 2:
            return None
        bounds = Bounds(live.positions, live.lengths, live.limits, live.done, stop.id, forbidden, steps)
        found = engine.stride(_next(live, column), read, bounds=bounds)
        if found is None:
            return None
        written, read = found
        taken, done = len(written.ids), written.done
        news = [int(done.sum()), written.failed]
        behind = replace(live, positions=live.positions + taken, lengths=live.lengths + taken, done=done)
        parts = zip(written.ids, written.positions, written.log_probabilities, strict=True)
        return behind, [Column(live.rows, *each) for each in parts], read, news

    return stride


def _next(live: Live, column: Column) -> Tokens:
    """What is read of a column: tokens of rows that go on."""
    positions = torch.where(live.done, -1, column.positions).unsqueeze(1)
    return Tokens(column.ids.unsqueeze(1), positions, live.segments)


def grown_by_one(
    live: Live, logits: Float[Tensor, "N V"], history: History, *, pick: Pick, manner: Manner, copies: int
) -> tuple[Live, Column, History, list[int]]:
    """The rows after one more token, that token, the history with it, and the news that `native.grown` gives."""
    totals = normalisers(logits)
    left = manner.allowed(manner.changed(logits, history), history)
    picked = pick(left, Progress(live.lengths, live.streams))
    ids = picked.clamp(min=0)
    ended, history = manner.ended(ids, history)
    before = live.positions, live.lengths, live.done
    if (library := native.library_for(logits)) is not None:
        after, values, at, news = native.grown(
            library, logits, totals, picked=picked, ended=ended, limits=live.limits, before=before, copies=copies
        )
    else:
        values = logits.gather(1, ids.unsqueeze(1)).squeeze(1) - totals
        at = torch.where(live.done, -1, live.positions)
        lengths = live.lengths + 1
        after = live.positions + 1, lengths, live.done | ended | (lengths >= live.limits)
        impossible = (picked < 0) & ~live.done
        first = torch.where(impossible.any(), impossible.byte().argmax(), -1)
        news = torch.stack((after[2].view(-1, copies).all(1).sum(), first)).tolist()
    positions, lengths, done = after
    live = Live(live.rows, positions, lengths, live.limits, live.streams, done, live.segments)
    return live, Column(live.rows, ids, at, values), history, news


def _fields(column: Column) -> tuple[Tensor, ...]:
    return column.rows, column.ids, column.positions, column.log_probabilities


def _ended(
    columns: list[Column], rest: Rest, start: Start, *, eos: int, copies: int
) -> tuple[Ended, Int[Tensor, " N"]]:
    """The answers, best first in each sentence, and the rows in which they grew."""
    rows = len(start.lengths) * copies
    ids = start.positions.new_zeros(rows, len(columns) + 1)
    values = start.log_probabilities.new_zeros(ids.shape)
    sizes = ids.new_zeros(rows)
    if columns:
        rows_of, taken, positions, scores = (torch.cat(parts) for parts in zip(*map(_fields, columns), strict=True))
        counts = torch.tensor([len(column.ids) for column in columns], device=ids.device)
        numbers = torch.arange(len(columns), device=ids.device).repeat_interleave(counts)
        grows = positions >= 0
        ids[rows_of, numbers] = taken
        values[rows_of, numbers] = scores.where(grows, 0.0)
        sizes.index_add_(0, rows_of, grows.long())
    finished = (sizes > 0) & (ids.gather(1, (sizes - 1).clamp(min=0).unsqueeze(1)).squeeze(1) == eos)
    forced = start.log_probabilities.sum(1).repeat_interleave(copies)
    totals = (forced + values.sum(1)).view(-1, copies)
    order = totals.sort(dim=1, descending=True, stable=True).indices
    place = torch.arange(len(order), device=ids.device).unsqueeze(1) * copies + order
    totals = totals.gather(1, order)
    cut = torch.zeros_like(finished).index_fill_(0, rest.cut, True)
    counts = (sizes - finished.long())[place]
    return Ended(counts, finished[place], totals, totals, ids[place], values[place], cut[place]), place.flatten()


@final
class Stream(Iterator[Tokens]):
    """Tokens as they are picked, one column [B, 1] at a time; a row that has ended goes on with position -1.

    Attributes:
        cut: rows that were told to stop; None while tokens come.
    """

    def __init__(self, step: Step, state: State, request: Request, *, pick: Pick, manner: Manner) -> None:
        self.cut: Bool[Tensor, " B"] | None = None
        self._end: tuple[Rest, Tokens, Int[Tensor, " B"]] | None = None
        self._tokens = self._streamed(step, state, request, pick=pick, manner=manner)

    def __next__(self) -> Tokens:
        return next(self._tokens)

    @property
    @torch.inference_mode()
    def after(self) -> After | None:
        """Where the model stands when all tokens have come, put together when it is asked for; None before."""
        if self._end is None:
            return None
        rest, unread, positions = self._end
        return After(rest.state(torch.arange(len(positions), device=positions.device)), unread, positions)

    @torch.inference_mode()
    def _streamed(
        self, step: Step, state: State, request: Request, *, pick: Pick, manner: Manner
    ) -> Generator[Tokens, None, None]:
        start, state = read_prompt(step, state, request)
        columns = _Columns(_grown(step, state, request, start=start, copies=1, pick=pick, manner=manner, ahead=False))
        unread, sizes = torch.zeros_like(start.limits), torch.zeros_like(start.limits)
        for column in columns:
            ids = torch.zeros_like(start.limits).index_copy_(0, column.rows, column.ids)
            positions = torch.full_like(start.limits, -1).index_copy_(0, column.rows, column.positions)
            unread, sizes = torch.where(positions >= 0, ids, unread), sizes + (positions >= 0)
            yield Tokens(ids.unsqueeze(1), positions.unsqueeze(1), start.segments)
        last = torch.where(sizes > 0, start.positions + sizes - 1, -1).unsqueeze(1)
        self.cut = torch.zeros_like(start.limits, dtype=torch.bool).index_fill_(0, columns.rest.cut, True)
        self._end = columns.rest, Tokens(unread.unsqueeze(1), last, start.segments), start.positions + sizes


def sample(
    step: Step,
    state: State,
    prompt: Tokens,
    *,
    pick: Pick,
    stop: Stop,
    limit: int | Int[Tensor, " B"],
    penalties: Sequence[Penalty] = (),
    bans: Sequence[Ban] = (),
    prefix: Int[Tensor, "B L"] | None = None,
    streams: Int[Tensor, " B"] | None = None,
    until: Until = never,
) -> Stream:
    """Tokens as they are picked; what `sampled_search` finds, column by column.

    The token at which `stop` ends a row is the row's last one. Penalties and bans change the logits before they are
    picked from. Nothing is read before the first column is asked for. A forced prefix is read, but does not come out
    again.
    """
    request = Request(prompt, limit, prefix, streams, until=until, keep=True)
    return Stream(step, state, request, pick=pick, manner=Manner(stop, penalties, bans))
