"""One token at a time: streams, greedy search and sampling."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.errors import RecipeError, RunError
from heedful.generation.after import After
from heedful.generation.filters import Filter
from heedful.generation.history import History, Manner
from heedful.generation.hypotheses import Ended, Found, Hypotheses, no_token
from heedful.generation.pick import Best, Pick, Progress
from heedful.generation.ranking import normalisers
from heedful.generation.repetition import Penalty, penalised
from heedful.generation.start import Start, at_least_single, check_prefix, limits, read_prompt
from heedful.generation.stopping import AnyOf, AtToken, Stop, Until, never
from heedful.models.interface import State, Step
from heedful.values import Rows, Tokens, join, select

_WORTH_DROPPING = 0.25  # of the sentences done, as in beam search


@dataclass(frozen=True)
class _Live:
    """The rows that still grow; `limits` and `lengths` count the forced prefix."""

    rows: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    lengths: Int[Tensor, " N"]
    limits: Int[Tensor, " N"]
    streams: Int[Tensor, " N"]
    done: Bool[Tensor, " N"]
    segments: Int[Tensor, " N"] | None = None


@dataclass(frozen=True)
class _Column:
    """One more token of each row that had not ended; elsewhere `position` is -1."""

    rows: Int[Tensor, " N"]
    ids: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    log_probabilities: Float[Tensor, " N"]


@dataclass(frozen=True)
class _Rest:
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


@dataclass(frozen=True)
class _End:
    """What a stream knows when it has ended: its last tokens, what comes next, and the rows that were told to stop."""

    rest: _Rest
    unread: Tokens
    positions: Int[Tensor, " B"]
    cut: Bool[Tensor, " B"]

    @torch.inference_mode()
    def after(self) -> After:
        """Made when asked for, because it may have to be put together."""
        order = torch.arange(len(self.positions), device=self.positions.device)
        return After(self.rest.state(order), self.unread, self.positions)


@final
class Stream(Iterator[Tokens]):
    """Tokens as they are picked, one column [B, 1] at a time; a row that has ended goes on with position -1.

    Attributes:
        cut: rows that were told to stop; None while tokens come.
    """

    def __init__(self, columns: Generator[Tokens, None, _End]) -> None:
        self.cut: Bool[Tensor, " B"] | None = None
        self._columns = columns
        self._end: _End | None = None

    def __next__(self) -> Tokens:
        try:
            return next(self._columns)
        except StopIteration as end:
            if end.value is not None:
                self._end = end.value
                self.cut = end.value.cut
            raise

    @property
    def after(self) -> After | None:
        """Where the model stands when all tokens have come; None before."""
        return None if self._end is None else self._end.after()


def sample(
    step: Step,
    state: State,
    prompt: Tokens,
    *,
    pick: Pick,
    stop: Stop,
    limit: int | Int[Tensor, " B"],
    penalties: Sequence[Penalty] = (),
    prefix: Int[Tensor, "B L"] | None = None,
    streams: Int[Tensor, " B"] | None = None,
    until: Until = never,
) -> Stream:
    """Tokens as they are picked; what `sampled_search` finds, column by column.

    The token at which `stop` ends a row is the row's last one. Penalties change the logits before they are picked
    from. Nothing is read before the first column is asked for. A forced prefix is read, but does not come out again.
    """
    return Stream(
        _streamed(
            step,
            state,
            prompt,
            pick=pick,
            manner=Manner(stop, tuple(penalties)),
            limit=limit,
            prefix=prefix,
            streams=streams,
            until=until,
        )
    )


@torch.inference_mode()
def _streamed(
    step: Step,
    state: State,
    prompt: Tokens,
    *,
    pick: Pick,
    manner: Manner,
    limit: int | Int[Tensor, " B"],
    prefix: Int[Tensor, "B L"] | None,
    streams: Int[Tensor, " B"] | None,
    until: Until,
) -> Generator[Tokens, None, _End]:
    limited = limits(limit, prompt=prompt)
    start, state = read_prompt(step, state, prompt=prompt, prefix=prefix)
    live = _begin(start, limited, copies=1, streams=streams)
    state = (state, manner.begin(prompt, start))
    columns = _columns(
        step, state, start.logits, live=live, copies=1, pick=pick, manner=manner, until=until, keep=True
    )  # fmt: skip
    segments = None if start.segments is None else start.segments.unsqueeze(1)
    unread, sizes = torch.zeros_like(limited), torch.zeros_like(limited)
    while True:
        try:
            column = next(columns)
        except StopIteration as end:
            rest: _Rest = end.value
            break
        ids = torch.zeros_like(limited).index_copy_(0, column.rows, column.ids)
        positions = torch.full_like(limited, -1).index_copy_(0, column.rows, column.positions)
        unread, sizes = torch.where(positions >= 0, ids, unread), sizes + (positions >= 0)
        yield Tokens(ids.unsqueeze(1), positions.unsqueeze(1), segments)
    last = torch.where(sizes > 0, start.positions + sizes - 1, -1)
    cut = torch.zeros_like(limited, dtype=torch.bool).index_fill_(0, rest.cut, True)
    return _End(rest, Tokens(unread.unsqueeze(1), last.unsqueeze(1), segments), start.positions + sizes, cut)


def greedy_search(
    step: Step,
    state: State,
    prompt: Tokens,
    *,
    eos: int,
    limit: int | Int[Tensor, " B"],
    prefix: Int[Tensor, "B L"] | None = None,
    filters: Sequence[Filter] = (),
    penalties: Sequence[Penalty] = (),
    stop: Stop | None = None,
    until: Until = never,
) -> Hypotheses:
    """One answer for each sentence, each token the most probable one; arguments as in `beam_search`."""
    return sampled_search(
        step,
        state,
        prompt,
        eos=eos,
        limit=limit,
        pick=Best(tuple(filters)),
        prefix=prefix,
        penalties=penalties,
        stop=stop,
        until=until,
    )


def sampled_search(
    step: Step,
    state: State,
    prompt: Tokens,
    *,
    eos: int,
    limit: int | Int[Tensor, " B"],
    pick: Pick,
    n: int = 1,
    prefix: Int[Tensor, "B L"] | None = None,
    streams: Int[Tensor, " B"] | None = None,
    penalties: Sequence[Penalty] = (),
    stop: Stop | None = None,
    until: Until = never,
) -> Hypotheses:
    """`n` answers for each sentence, best first; other arguments as in `beam_search`.

    Scores are log-probabilities, those of the model before penalties, temperature and filters. `streams` gives each
    sentence the number of its own source of chance, by default its row: a caller that batches sentences in another
    order passes their numbers in the original one, and every answer stays the same.
    """
    return found_by_sampling(
        step,
        state,
        prompt,
        eos=eos,
        limit=limit,
        pick=pick,
        n=n,
        prefix=prefix,
        streams=streams,
        penalties=penalties,
        stop=stop,
        until=until,
        keep=False,
    ).hypotheses


@torch.inference_mode()
def found_by_sampling(
    step: Step,
    state: State,
    prompt: Tokens,
    *,
    eos: int,
    limit: int | Int[Tensor, " B"],
    pick: Pick,
    n: int,
    prefix: Int[Tensor, "B L"] | None,
    streams: Int[Tensor, " B"] | None,
    penalties: Sequence[Penalty],
    stop: Stop | None,
    until: Until,
    keep: bool,
) -> Found:
    """`sampled_search`, and if it is to be kept, where the model stands behind each answer."""
    if n < 1:
        raise RecipeError(f"samples: {n} of each sentence; must be at least 1")
    limited = limits(limit, prompt=prompt)
    check_prefix(prefix, eos=eos)
    start, state = read_prompt(step, state, prompt=prompt, prefix=prefix)
    live = _begin(start, limited, copies=n, streams=streams)
    logits = start.logits
    if n > 1:
        state = select(state, Rows.branch(len(limited), n, device=logits.device))
        logits = logits.repeat_interleave(n, 0)
    manner = Manner(AtToken(eos) if stop is None else AnyOf((AtToken(eos), stop)), tuple(penalties))
    state = (state, manner.begin(prompt, start, copies=n))
    columns, rest = _drained(
        _columns(step, state, logits, live=live, copies=n, pick=pick, manner=manner, until=until, keep=keep)
    )
    ended, order = _ended(columns, rest, start, eos=eos, copies=n)
    if not keep:
        return Found(ended.listed(start))
    first = start.positions.repeat_interleave(n)
    after = After.of(rest.state(order), ended.written(start), first=first)
    return Found(ended.listed(start), after)


def _begin(start: Start, limited: Int[Tensor, " B"], *, copies: int, streams: Int[Tensor, " B"] | None) -> _Live:
    rows = torch.arange(len(limited) * copies, device=limited.device)
    if streams is None:
        streams = rows[: len(limited)]
    return _Live(
        rows=rows,
        positions=start.positions.repeat_interleave(copies),
        lengths=start.lengths.repeat_interleave(copies),
        limits=limited.repeat_interleave(copies),
        # far apart, so that the samples of one sentence are not the first ones of the next
        streams=(streams << 20).repeat_interleave(copies) + rows % copies,
        done=(start.lengths >= limited).repeat_interleave(copies),
        segments=None if start.segments is None else start.segments.repeat_interleave(copies),
    )


def _columns(
    step: Step,
    state: tuple[State, History],
    logits: Float[Tensor, "N V"],
    *,
    live: _Live,
    copies: int,
    pick: Pick,
    manner: Manner,
    until: Until,
    keep: bool,
) -> Generator[_Column, None, _Rest]:
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
    return _Rest((*parted, (live.rows, read)), live.rows[~live.done])


def _drained(columns: Generator[_Column, None, _Rest]) -> tuple[list[_Column], _Rest]:
    found = []
    while True:
        try:
            found.append(next(columns))
        except StopIteration as end:
            return found, end.value


def _next(live: _Live, column: _Column) -> Tokens:
    """What is read of a column: tokens of rows that go on."""
    positions = torch.where(live.done, -1, column.positions).unsqueeze(1)
    return Tokens(column.ids.unsqueeze(1), positions, None if live.segments is None else live.segments.unsqueeze(1))


def _advance(
    live: _Live, logits: Float[Tensor, "N V"], history: History, *, pick: Pick, manner: Manner
) -> tuple[_Live, _Column, History, Bool[Tensor, " N"]]:
    """The rows after one more token, that token, the history with it, and where none was possible."""
    totals = normalisers(logits)
    changed = penalised(logits, history.penalties, penalties=manner.penalties)
    picked = pick(changed, Progress(live.lengths, live.streams))
    ids = picked.clamp(min=0)
    values = logits.gather(1, ids.unsqueeze(1)).squeeze(1) - totals
    column = _Column(live.rows, ids, torch.where(live.done, -1, live.positions), values)
    lengths = live.lengths + 1
    ended, history = manner.ended(ids, history)
    done = live.done | ended | (lengths >= live.limits)
    impossible = (picked < 0) & ~live.done
    return replace(live, lengths=lengths, positions=live.positions + 1, done=done), column, history, impossible


def _ended(
    columns: list[_Column], rest: _Rest, start: Start, *, eos: int, copies: int
) -> tuple[Ended, Int[Tensor, " N"]]:
    """The answers, best first in each sentence, and the rows in which they grew."""
    rows = len(start.lengths) * copies
    ids = start.positions.new_zeros(rows, len(columns) + 1)
    values = at_least_single(start.log_probabilities).new_zeros(ids.shape)
    sizes = ids.new_zeros(rows)
    for at, column in enumerate(columns):
        grows = column.positions >= 0
        ids[:, at] = ids[:, at].index_copy(0, column.rows, column.ids)
        values[:, at] = values[:, at].index_copy(0, column.rows, column.log_probabilities.where(grows, 0.0))
        sizes.index_add_(0, column.rows, grows.long())
    finished = (sizes > 0) & (ids.gather(1, (sizes - 1).clamp(min=0).unsqueeze(1)).squeeze(1) == eos)
    forced = start.log_probabilities.sum(1).repeat_interleave(copies)
    totals = (forced + values.sum(1)).view(-1, copies)
    order = totals.sort(dim=1, descending=True, stable=True).indices
    place = torch.arange(len(order), device=ids.device).unsqueeze(1) * copies + order
    totals = totals.gather(1, order)
    cut = torch.zeros_like(finished).index_fill_(0, rest.cut, True)
    counts = (sizes - finished.long())[place]
    return Ended(counts, finished[place], totals, totals, ids[place], values[place], cut[place]), place.flatten()
