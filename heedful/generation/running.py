"""A search that never ends: sentences join and leave it at every step, whatever is asked of each of them.

The rows of all its sentences are read by the model together. What comes out of a row does not depend on its neighbours
(the batch law), so a sentence gets what it would get alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from jaxtyping import Int
from torch import Tensor

from heedful.errors import HeedfulError
from heedful.generation.beam import rearranged
from heedful.generation.hypotheses import Hypothesis
from heedful.generation.party import Growable, Party, party_of
from heedful.generation.scoring import at_least_single
from heedful.generation.start import Request, read_prompt
from heedful.generation.stopping import Until, never
from heedful.models.interface import State, Step
from heedful.values import Rows, Tokens, join, select

_WORTH_DROPPING: Final = 0.25  # of the sentences done, as in other searches


@final
@dataclass(frozen=True)
class Left:
    """A sentence that has left the search: its hypotheses, best first, or why there are none."""

    ticket: int
    hypotheses: Sequence[Hypothesis]
    error: HeedfulError | None = None


@dataclass
class _Table:
    """A party, the tickets of its sentences, None where one has left, and what is read next."""

    party: Party
    tickets: list[int | None]
    tokens: Tokens
    until: Until

    @property
    def places(self) -> list[int]:
        """Of the sentences that are under way."""
        return [place for place, ticket in enumerate(self.tickets) if ticket is not None]

    def leave(self, places: Sequence[int], *, width: int) -> list[int]:
        """Has sentences end, and gives their tickets."""
        tickets = [ticket for place in places if (ticket := self.tickets[place]) is not None]
        for place in places:
            self.tickets[place] = None
        gone = self.at(places)
        self.party = self.party.ended(gone)
        rows = Rows.keep(gone, width).origin
        self.tokens = Tokens(self.tokens.ids, self.tokens.positions.index_fill(0, rows, -1), self.tokens.segments)
        return tickets

    def answers(self, places: Sequence[int], *, width: int) -> list[Left]:
        """What was found of sentences, which leave."""
        party = self.party
        tickets = self.leave(places, width=width)
        try:
            return [Left(*each) for each in zip(tickets, party.answers(self.at(places)), strict=True)]
        except HeedfulError as error:
            if len(places) == 1:
                return [Left(tickets[0], (), error)]
        alone = []
        for ticket, place in zip(tickets, places, strict=True):
            try:
                alone.append(Left(ticket, party.answers(self.at([place]))[0]))
            except HeedfulError as error:
                alone.append(Left(ticket, (), error))
        return alone

    def keep(self, places: Sequence[int], *, width: int) -> None:
        """Only some of the sentences."""
        kept = self.at(places)
        self.party = self.party.only(kept)
        self.tokens = select(self.tokens, Rows.keep(kept, width).origin)
        self.tickets = [self.tickets[place] for place in places]

    def newest(self, wanted: set[int]) -> dict[int, list[int]]:
        """The best texts so far of those sentences that have these tickets."""
        found = {place: ticket for place, ticket in enumerate(self.tickets) if ticket is not None and ticket in wanted}
        if not found:
            return {}
        return dict(zip(found.values(), self.party.newest(self.at([*found])), strict=True))

    def at(self, places: Sequence[int]) -> Int[Tensor, " B"]:
        """Places as a tensor."""
        return torch.tensor(places, dtype=torch.long, device=self.party.start.lengths.device)


@final
class Running:
    """Sentences of one engine that are searched side by side, with as many rows each.

    Belongs to one thread. What ended is given back by the call that noticed it.

    Args:
        step: of the engine.
        width: rows of each sentence, which all searches that are admitted have to have.
    """

    def __init__(self, step: Step, *, width: int) -> None:
        self._step = step
        self._width = width
        self._tables: list[_Table] = []
        self._state: State = None
        self._next = 0

    def __len__(self) -> int:
        """How many sentences are under way."""
        return sum(len(table.places) for table in self._tables)

    @torch.inference_mode()
    def admit(self, state: State, request: Request, search: Growable) -> tuple[range, list[Left]]:
        """Takes in a sentence for each row of the state, and gives their tickets and those that have ended at once.

        Args:
            state: of the engine, before the prompts.
            request: what is asked; neither `keep` nor `terms`, which are for searches of their own.
            search: of this width.
        """
        assert request.terms is None and not request.keep, "for a search of its own"
        start, read = read_prompt(self._step, state, request, eos=search.eos)
        party = party_of(search, request, start)
        assert party.width == self._width, f"{party.width} rows of each sentence, where others have {self._width}"
        tickets = range(self._next, self._next + len(start.lengths))
        self._next = tickets.stop
        nothing = Tokens(*(torch.full_like(start.positions, -1).repeat_interleave(self._width).unsqueeze(1),) * 2)
        table = _Table(party, [*tickets], nothing, request.until)
        left = self._leaving(table)
        if table.places:
            left += self._joined(table, read, at_least_single(start.logits))
        return tickets, left

    @torch.inference_mode()
    def advance(self) -> list[Left]:
        """One more token of every row, and the sentences that have ended with it."""
        left = self._told()
        self._drop(worth=_WORTH_DROPPING)
        if not self._tables:
            return left
        logits, self._state = self._step(_together([table.tokens for table in self._tables]), self._state)
        logits, at = logits[:, -1], 0
        beams, moved = [], False
        for table in self._tables:
            rows = len(table.tickets) * self._width
            own, at = at_least_single(logits[at : at + rows]), at + rows
            try:
                table.party, move = table.party.grown(own, rows=self._width)
            except HeedfulError as error:
                left += [Left(ticket, (), error) for ticket in table.leave(table.places, width=self._width)]
                beams.append(torch.arange(self._width, device=own.device).expand(len(table.tickets), -1))
                continue
            table.tokens, moved = move.tokens, moved or move.moved
            beams.append(move.beams)
            left += self._leaving(table)
        self._state = rearranged(self._state, torch.cat(beams), rows=self._width, moved=moved)
        return left

    @torch.inference_mode()
    def drop(self, tickets: Iterable[int]) -> None:
        """Has these sentences end without an answer."""
        gone = set(tickets)
        for table in self._tables:
            if places := [place for place in table.places if table.tickets[place] in gone]:
                table.leave(places, width=self._width)

    @torch.inference_mode()
    def newest(self, tickets: Iterable[int]) -> dict[int, list[int]]:
        """The ids of the best text so far of these sentences, as far as they are under way."""
        wanted = set(tickets)
        return {ticket: ids for table in self._tables for ticket, ids in table.newest(wanted).items()}

    def _joined(self, table: _Table, read: State, logits: Tensor) -> list[Left]:
        """Takes in a party whose prompts were read, after its first token."""
        try:
            table.party, move = table.party.grown(logits, rows=1)
        except HeedfulError as error:
            return [Left(ticket, (), error) for ticket in table.leave(table.places, width=self._width)]
        table.tokens = move.tokens
        read = rearranged(read, move.beams, rows=1, moved=move.moved)
        left = self._leaving(table)
        self._drop(worth=0.0)
        if not table.places:
            return left
        if len(table.places) < len(table.tickets):
            read = select(read, Rows.keep(table.at(table.places), self._width))
            table.keep(table.places, width=self._width)
        self._state = join([self._state, read]) if self._tables else read
        place = next((place for place, other in enumerate(self._tables) if _alike(other, table)), None)
        if place is None:
            self._tables.append(table)
            return left
        other = self._tables[place]
        self._side_by_side(place, len(table.tickets))
        other.tokens = _together([other.tokens, table.tokens])
        other.party = other.party.joined(table.party)
        other.tickets += table.tickets
        return left

    def _side_by_side(self, place: int, count: int) -> None:
        """Brings so many newest sentences behind those of a party, where they are behind those of others."""
        sizes = [len(table.tickets) for table in self._tables]
        behind, whole = sum(sizes[: place + 1]), sum(sizes)
        if behind < whole:
            order = [*range(behind), *range(whole, whole + count), *range(behind, whole)]
            self._state = select(self._state, Rows.keep(self._groups(order), self._width))

    def _told(self) -> list[Left]:
        """The sentences whose search is told to end, with the best that they have."""
        told = [table for table in self._tables if table.until is not never and table.places and table.until()]
        return [left for table in told for left in table.answers(table.places, width=self._width)]

    def _leaving(self, table: _Table) -> list[Left]:
        """The sentences of a party that are done and have not left yet."""
        done = table.party.done.tolist()
        places = [place for place in table.places if done[place]]
        return table.answers(places, width=self._width) if places else []

    def _drop(self, *, worth: float) -> None:
        """Drops the rows of sentences that have left, where such a share of them has."""
        count, live = sum(len(table.tickets) for table in self._tables), len(self)
        if not live:
            self._tables, self._state = [], None
        if not live or live == count or count - live < worth * count:
            return
        kept, first = [], 0
        for table in self._tables:
            kept += [first + place for place in table.places]
            first += len(table.tickets)
        self._state = select(self._state, Rows.keep(self._groups(kept), self._width))
        self._tables = [table for table in self._tables if table.places]
        for table in self._tables:
            table.keep(table.places, width=self._width)

    def _groups(self, places: Sequence[int]) -> Int[Tensor, " G"]:
        return torch.tensor(places, dtype=torch.long, device=self._tables[0].party.start.lengths.device)


def _alike(one: _Table, other: _Table) -> bool:
    """Whether two parties may become one: nothing that belongs to single rows decides how they go on."""
    key = one.party.key
    return key is not None and key == other.party.key and one.until is never and other.until is never


def _together(parts: Sequence[Tokens]) -> Tokens:
    """The tokens of several parties; those without segments have segment 0 beside others."""
    if len(parts) == 1:
        return parts[0]
    segments = None
    if any(part.segments is not None for part in parts):
        segments = torch.cat([torch.zeros_like(p.ids) if p.segments is None else p.segments for p in parts])
    return Tokens(torch.cat([p.ids for p in parts]), torch.cat([p.positions for p in parts]), segments)
