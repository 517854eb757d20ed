"""What grows side by side in a running search: the rows of one way to search, whose number may change at every step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.generation.beam import advance, best_of, continuations, divisors_of
from heedful.generation.columns import Live, begun, grown_by_one
from heedful.generation.front import Front
from heedful.generation.history import History, Manner, followed
from heedful.generation.hypotheses import Ended, Hypothesis, NoTokenError
from heedful.generation.search import Beam, Greedy, Sampling
from heedful.generation.start import Request, Start
from heedful.generation.stopping import AtToken
from heedful.values import Rows, Tokens, join, laid_under, select

Growable: TypeAlias = Greedy | Sampling | Beam
"""Searches whose rows may come and go."""


@dataclass(frozen=True)
class Lattice:
    """Which token each beam of each sentence took at each of its own steps, and which beam it continued.

    What a `Trellis` is to sentences that begin together, and batch-first, so that sentences may come and go.
    """

    origins: Int[Tensor, "G T width"]
    ids: Int[Tensor, "G T width"]
    values: Float[Tensor, "G T width"]

    @classmethod
    def of(cls, like: Float[Tensor, "G width"]) -> Lattice:
        """Without any step."""
        shape = (len(like), 16, like.size(1))
        ids = torch.zeros(shape, dtype=torch.long, device=like.device)
        return cls(ids, ids.clone(), like.new_zeros(shape))

    def joined(self, others: Sequence[Lattice]) -> Lattice:
        """With the sentences of others."""
        parts = (self, *others)
        return Lattice(
            *(laid_under([getattr(each, name.name) for each in parts], axis=1, fill=0) for name in fields(self))
        )

    def grow(
        self,
        steps: Int[Tensor, " G"],
        *,
        origins: Int[Tensor, "G width"],
        ids: Int[Tensor, "G width"],
        values: Float[Tensor, "G width"],
    ) -> Lattice:
        """With the step that has this number in each sentence; may write into this one."""
        size, rows = self.ids.size(1), torch.arange(len(steps), device=steps.device)
        told = self
        if int(steps.max()) >= size:
            room = (0, 0, 0, size)
            told = Lattice(*(functional.pad(each, room) for each in (self.origins, self.ids, self.values)))
        for whole, step in ((told.origins, origins), (told.ids, ids), (told.values, values)):
            whole[rows, steps] = step
        return told

    def trace(
        self, beams: Int[Tensor, "B n"], counts: Int[Tensor, "B n"], *, dtype: torch.dtype
    ) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n T"]]:
        """See `Trellis.trace`. Few sentences leave at one time, for which lists are faster than tensors."""
        size = int(counts.max()) if counts.numel() else 0
        steps = [each[:, :size].tolist() for each in (self.origins, self.ids, self.values)]
        ids, scores = list[list[int]](), list[list[float]]()
        for sentence, ends, sizes in zip(zip(*steps, strict=True), beams.tolist(), counts.tolist(), strict=True):
            for beam, count in zip(ends, sizes, strict=True):
                path = _traced(*sentence, beam=beam, count=count)
                ids.append([*(taken for taken, _ in path), *[0] * (size + 1 - count)])
                scores.append([*(value for _, value in path), *[0.0] * (size + 1 - count)])
        found = torch.tensor(ids, dtype=torch.long, device=beams.device).view(*beams.shape, -1)
        return found, torch.tensor(scores, dtype=dtype, device=beams.device).view(*beams.shape, -1)


@dataclass(frozen=True)
class Move:
    """What a step of a party asks of the model's state, and what is read next.

    Attributes:
        beams: in each sentence, the row that each row continues.
        moved: whether any row continues another than itself.
        tokens: of all rows; position -1 where a sentence is done.
    """

    beams: Int[Tensor, "G width"]
    moved: bool
    tokens: Tokens


class Party(ABC):
    """Sentences that are searched in one way, `width` rows of each; abstract."""

    start: Start

    @property
    @abstractmethod
    def width(self) -> int:
        """Rows of each sentence."""

    @property
    @abstractmethod
    def done(self) -> Bool[Tensor, " G"]:
        """Which sentences go on no more."""

    @property
    @abstractmethod
    def key(self) -> Any:
        """Parties with an equal one may become one; None where it may not be joined at all."""

    @abstractmethod
    def grown(self, logits: Float[Tensor, "N V"], *, rows: int) -> tuple[Party, Move]:
        """One more token of every row, of which there are 1 or `width` in each sentence so far.

        Raises:
            RunError: no token may follow somewhere.
        """

    @abstractmethod
    def only(self, kept: Int[Tensor, " G"]) -> Party:
        """Some of the sentences."""

    @abstractmethod
    def joined(self, other: Party) -> Party:
        """With the sentences of another party with this one's key."""

    @abstractmethod
    def ended(self, places: Int[Tensor, " B"]) -> Party:
        """With some sentences told to end."""

    @abstractmethod
    def best(self, places: Int[Tensor, " B"]) -> Ended:
        """What was found of some sentences."""

    @abstractmethod
    def newest(self, places: Int[Tensor, " B"]) -> list[list[int]]:
        """What of each of these sentences stands there so far: the best that may still change."""

    @final
    def answers(self, places: Int[Tensor, " B"]) -> list[list[Hypothesis]]:
        """The hypotheses of some sentences; `RunError` where one has none."""
        return self.best(places).listed(select(self.start, places))


def party_of(search: Growable, request: Request, start: Start) -> Party:
    """Behind the prompts, before the first token."""
    manner = Manner.of(request, eos=search.eos, penalties=search.penalties, bans=search.bans)
    history = manner.begin(request.prompt, start)
    free = manner.free and isinstance(manner.stop, AtToken)
    kept = replace(start, logits=start.logits[:, :0])
    if isinstance(search, Beam):
        front = Front.of(start, width=search.width, n_best=search.n_best)
        divisors = divisors_of(front, search.length_penalty)
        return Beams(kept, front, Lattice.of(front.live), history, divisors, manner, search, free)
    copies = search.n if isinstance(search, Sampling) else 1
    live, rows = (
        begun(start, streams=request.streams),
        Rows.branch(len(start.lengths), copies, device=start.logits.device),
    )
    live, history = select((live, history), rows) if copies > 1 else (live, history)
    copy = torch.arange(len(live.rows), device=live.rows.device) % copies
    live = replace(live, streams=live.streams + copy)
    lattice = Lattice.of(start.logits.new_zeros(len(start.lengths), copies))
    steps, sizes = torch.zeros_like(start.lengths), torch.zeros_like(live.lengths)
    return Columns(kept, live, lattice, steps, sizes, history, manner, search, copies, free)


@final
@dataclass(frozen=True)
class Beams(Party):
    """Sentences of beam search."""

    start: Start
    front: Front
    lattice: Lattice
    history: History
    divisors: Float[Tensor, " lengths"]
    manner: Manner
    search: Beam
    free: bool

    @property
    def width(self) -> int:
        """Of the beam."""
        return self.search.width

    @property
    def done(self) -> Bool[Tensor, " G"]:
        """Whose result nothing can change any more."""
        return self.front.done

    @property
    def key(self) -> Any:
        """The search."""
        return (self.search, self.front.segments is None) if self.free else None

    def grown(self, logits: Float[Tensor, "N V"], *, rows: int) -> tuple[Beams, Move]:
        """As `found_by_beams` does it."""
        before = self.front
        found = continuations(logits, before, self.history, rows=rows, manner=self.manner, search=self.search)
        ends, tried = self.manner.tried(found.ids, self.history, beams=found.beams, rows=rows)
        front, chosen, (_, moved) = advance(before, replace(found, ends=ends), divisors=self.divisors)
        lattice = self.lattice.grow(before.counts, origins=chosen.beams, ids=chosen.ids, values=chosen.values)
        after = replace(self, front=front, lattice=lattice, history=followed(tried, chosen.ranks))
        positions = torch.where(front.done, -1, front.first + front.counts - 1)
        return after, Move(chosen.beams, moved, _read(chosen.ids, positions, front.segments))

    def only(self, kept: Int[Tensor, " G"]) -> Beams:
        """Some of the sentences."""
        start, front, lattice = select((self.start, self.front, self.lattice), kept)
        history = select(self.history, Rows.keep(kept, self.width))
        return replace(self, start=start, front=front, lattice=lattice, history=history)

    def joined(self, other: Party) -> Beams:
        """With the sentences of another party."""
        assert isinstance(other, Beams)
        divisors = max(self.divisors, other.divisors, key=len)
        front, lattice = join([(self.front, self.lattice), (other.front, other.lattice)])
        start = _together(self.start, other.start)
        return replace(self, start=start, front=front, lattice=lattice, divisors=divisors)

    def ended(self, places: Int[Tensor, " B"]) -> Beams:
        """With some sentences told to end."""
        return replace(self, front=replace(self.front, done=self.front.done.index_fill(0, places, True)))

    def best(self, places: Int[Tensor, " B"]) -> Ended:
        """As `found_by_beams` gives it."""
        start, front, lattice = select((self.start, self.front, self.lattice), places)
        return best_of(front, lattice, divisors=self.divisors, start=start, search=self.search)[0]

    def newest(self, places: Int[Tensor, " B"]) -> list[list[int]]:
        """The best hypothesis that lives, or that has ended where it is better."""
        start, front, lattice = select((self.start, self.front, self.lattice), places)
        live = front.live[:, :1] / self.divisors[front.forced + front.counts].unsqueeze(1)
        worse = (front.ended[:, :, 0] < live).unsqueeze(2)
        front = replace(front, ended=front.ended.masked_fill(worse, -math.inf))
        best, _ = best_of(front, lattice, divisors=self.divisors, start=start, search=self.search)
        return [list(found[0].ids) for found in best.listed(start)]


@final
@dataclass(frozen=True)
class Columns(Party):
    """Sentences of greedy search and sampling.

    Attributes:
        steps: that each sentence has taken.
        sizes: tokens written in each row, the end included.
    """

    start: Start
    live: Live
    lattice: Lattice
    steps: Int[Tensor, " G"]
    sizes: Int[Tensor, " N"]
    history: History
    manner: Manner
    search: Greedy | Sampling
    copies: int
    free: bool

    @property
    def width(self) -> int:
        """Samples of each sentence."""
        return self.copies

    @property
    def done(self) -> Bool[Tensor, " G"]:
        """All of whose rows have ended."""
        return self.live.done.view(-1, self.width).all(1)

    @property
    def key(self) -> Any:
        """The search."""
        return (self.search, self.live.segments is None) if self.free else None

    def grown(self, logits: Float[Tensor, "N V"], *, rows: int) -> tuple[Columns, Move]:
        """As `found_by_sampling` does it."""
        if rows < self.width:
            logits = logits.repeat_interleave(self.width, 0)
        live, column, history, (_, failed) = grown_by_one(
            self.live, logits, self.history, pick=self.search.pick, manner=self.manner, copies=self.width
        )
        if failed >= 0:
            raise NoTokenError(failed // self.width)
        shape = (-1, self.width)
        same = torch.arange(self.width, device=self.steps.device).expand(len(self.steps), -1)
        lattice = self.lattice.grow(
            self.steps, origins=same, ids=column.ids.view(shape), values=column.log_probabilities.view(shape)
        )
        steps, sizes = self.steps + 1, self.sizes + (column.positions >= 0)
        after = replace(self, live=live, lattice=lattice, steps=steps, sizes=sizes, history=history)
        positions = torch.where(live.done, -1, column.positions)
        tokens = Tokens(column.ids.unsqueeze(1), positions.unsqueeze(1), live.segments)
        return after, Move(same, moved=False, tokens=tokens)

    def only(self, kept: Int[Tensor, " G"]) -> Columns:
        """Some of the sentences."""
        start, lattice, steps = select((self.start, self.lattice, self.steps), kept)
        live, sizes, history = select((self.live, self.sizes, self.history), Rows.keep(kept, self.width))
        return replace(self, start=start, live=live, lattice=lattice, steps=steps, sizes=sizes, history=history)

    def joined(self, other: Party) -> Columns:
        """With the sentences of another party."""
        assert isinstance(other, Columns)
        parts = [(each.live, each.lattice, each.steps, each.sizes) for each in (self, other)]
        live, lattice, steps, sizes = join(parts)
        start = _together(self.start, other.start)
        return replace(self, start=start, live=live, lattice=lattice, steps=steps, sizes=sizes)

    def ended(self, places: Int[Tensor, " B"]) -> Columns:
        """With some sentences told to end."""
        rows = Rows.keep(places, self.width).origin
        return replace(self, live=replace(self.live, done=self.live.done.index_fill(0, rows, True)))

    def best(self, places: Int[Tensor, " B"]) -> Ended:
        """As `found_by_sampling` gives it."""
        ids, values, sizes, done = self._rows(places)
        forced = self.start.log_probabilities[places].sum(1, keepdim=True)
        steps = torch.arange(ids.size(2), device=ids.device)
        totals = forced + torch.where(steps < sizes.unsqueeze(2), values, 0.0).sum(2)
        last = ids.gather(2, (sizes - 1).clamp(min=0).unsqueeze(2)).squeeze(2)
        finished = (sizes > 0) & (last == self.search.eos)
        order = totals.sort(dim=1, descending=True, stable=True).indices
        along = order.unsqueeze(2).expand_as(ids)
        totals, counts = totals.gather(1, order), (sizes - finished.long()).gather(1, order)
        ids, values = ids.gather(1, along), values.gather(1, along)
        return Ended(counts, finished.gather(1, order), totals, totals, ids, values, (~done).gather(1, order))

    def newest(self, places: Int[Tensor, " B"]) -> list[list[int]]:
        """What the first row of each has written."""
        ids, _, sizes, _ = self._rows(places)
        found = []
        for prefix, row, size, forced in zip(
            self.start.prefix[places].tolist(),
            ids[:, 0].tolist(),
            sizes[:, 0].tolist(),
            self.start.lengths[places].tolist(),
            strict=True,
        ):
            written = row[:size]
            found.append([*prefix[:forced], *(written[:-1] if written and written[-1] == self.search.eos else written)])
        return found

    def _rows(self, places: Int[Tensor, " B"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Ids and log-probabilities [B, width, T], sizes and whether they ended [B, width]."""
        lattice, shape = select(self.lattice, places), (-1, self.width)
        sizes, done = self.sizes.view(shape)[places], self.live.done.view(shape)[places]
        longest = int(sizes.max()) + 1
        return lattice.ids[:, :longest].transpose(1, 2), lattice.values[:, :longest].transpose(1, 2), sizes, done


def _traced(
    origins: list[list[int]], ids: list[list[int]], values: list[list[float]], *, beam: int, count: int
) -> list[tuple[int, float]]:
    """What led one sentence to a beam, after so many of its steps: ids with their log-probabilities."""
    path = []
    for at in reversed(range(count)):
        path.append((ids[at][beam], values[at][beam]))
        beam = origins[at][beam]
    return path[::-1]


def _read(ids: Int[Tensor, "G width"], positions: Int[Tensor, " G"], segments: Int[Tensor, "G 1"] | None) -> Tokens:
    width = ids.size(1)
    every = None if segments is None else segments.repeat_interleave(width, 0)
    return Tokens(ids.reshape(-1, 1), positions.repeat_interleave(width).unsqueeze(1), every)


def _together(one: Start, other: Start) -> Start:
    """The sentences of both; prefixes are as long as the longest."""
    prefix = laid_under([one.prefix, other.prefix], axis=1, fill=0)
    scores = laid_under([one.log_probabilities, other.log_probabilities], axis=1, fill=0.0)
    parts = [(each.logits, each.positions, each.limits, each.lengths, each.segments) for each in (one, other)]
    logits, positions, limits, lengths, segments = join(parts)
    return Start(logits, positions, limits, lengths, prefix, scores, segments)
