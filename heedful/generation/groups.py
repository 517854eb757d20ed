"""Diverse beam search: groups of beams, each of which avoids what those before it take (Vijayakumar et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation.beam import (
    WORTH_DROPPING,
    advance,
    behind,
    best_of,
    continuations,
    divisors_of,
    growth_of,
    rearranged,
)
from heedful.generation.front import Candidates, Front, Trellis
from heedful.generation.history import History, Manner, followed
from heedful.generation.hypotheses import Ended, Found
from heedful.generation.scoring import at_least_single
from heedful.generation.start import Request, Start, read_prompt
from heedful.models.interface import State, Step
from heedful.values import Rows, Tokens, join, select

if TYPE_CHECKING:
    from heedful.generation.search import Diverse


@dataclass(frozen=True)
class _Group:
    """The beams of every sentence that are searched as one; `parts` are sentences that were done and dropped."""

    front: Front
    history: History
    trellis: Trellis
    parts: tuple[Front, ...] = ()

    @property
    def width(self) -> int:
        return self.front.live.size(1)

    def without(self, done: Bool[Tensor, " G"]) -> _Group:
        """Sentences that are done are searched no more."""
        kept = (~done).nonzero().squeeze(1)
        parts = (*self.parts, select(self.front, done.nonzero().squeeze(1)))
        history = select(self.history, Rows.keep(kept, self.width))
        return _Group(select(self.front, kept), history, self.trellis, parts)

    def best(
        self, start: Start, *, divisors: Float[Tensor, " lengths"], search: Diverse
    ) -> tuple[Ended, Bool[Tensor, "B n"]]:
        """See `best_of`."""
        whole = join([*self.parts, self.front])
        whole = select(whole, whole.sentences.argsort())
        return best_of(whole, self.trellis, divisors=divisors, start=start, search=search)


@torch.inference_mode()
def found_by_groups(step: Step, state: State, request: Request, *, search: Diverse) -> Found:
    """The best answers of all groups, each once, and if it is to be kept, where the model stands behind each."""
    _check(search, request)
    start, begun = read_prompt(step, state, request, eos=search.eos)
    width = search.width // search.groups
    front = Front.of(start, width=width, n_best=min(width, search.n_best))
    divisors = divisors_of(front, search.length_penalty)
    manner = Manner.of(request, eos=search.eos, penalties=search.penalties, bans=search.bans)
    history = manner.begin(request.prompt, start)
    groups = [_Group(front, history, Trellis(len(start.limits), width)) for _ in range(search.groups)]
    read, logits, rows = begun, start.logits, 1
    running = not bool(front.done.all()) and not request.until()
    while running:
        groups, beams, ids, moved = _grown(
            groups, at_least_single(logits), rows=rows, manner=manner, search=search, divisors=divisors
        )
        done = torch.stack([each.front.done for each in groups]).all(0)
        count = int(done.sum())
        running = count < len(done) and not request.until()
        if running:
            if count >= WORTH_DROPPING * len(done):
                kept = (~done).nonzero().squeeze(1)
                groups = [each.without(done) for each in groups]
                beams, ids, read = beams[kept], ids[kept], select(read, Rows.keep(kept, rows))
            read = rearranged(read, beams, rows=rows, moved=moved)
            rows = search.width
            logits, read = _step(step, read, groups, ids)
    best = _merged([each.best(start, divisors=divisors, search=search) for each in groups], n_best=search.n_best)
    return Found(best.listed(start), behind(step, begun, best, start=start) if request.keep else None)


def _check(search: Diverse, request: Request) -> None:
    if search.groups < 1 or search.width % search.groups:
        raise RecipeError(
            f"groups: {search.groups} cannot share a beam of {search.width} evenly; give a width that they divide"
        )
    if not 1 <= search.n_best <= search.width:
        raise RecipeError(f"n-best: {search.n_best} of a beam of width {search.width}; must be from 1 to the width")
    if request.terms is not None:
        raise RecipeError(
            "terms that must be written: groups of beams that avoid each other cannot look for them; leave the groups "
            "out (--groups 1), or the terms"
        )


def _grown(
    groups: Sequence[_Group],
    logits: Float[Tensor, "N V"],
    *,
    rows: int,
    manner: Manner,
    search: Diverse,
    divisors: Float[Tensor, " lengths"],
) -> tuple[list[_Group], Int[Tensor, "G width"], Int[Tensor, "G width"], bool]:
    """One more token of each group, one after the other: the beams of a sentence that go on, with what, and whether
    any of them changes its row.
    """
    sentences, columns = len(groups[0].front.done), logits.size(1)
    taken = logits.new_zeros(sentences, columns)
    grown, beams, ids, changed = [], [], [], False
    for number, group in enumerate(groups):
        if rows == 1:  # all groups go on from what was forced; bans may overwrite what they are given
            own = logits if number == len(groups) - 1 else logits.clone()
        else:
            own = logits.view(sentences, len(groups), group.width, columns)[:, number].flatten(0, 1)
        before, each = group.front, min(rows, group.width)
        found = continuations(
            own, before, group.history, rows=each, manner=manner, search=search, taken=taken if number else None
        )
        ends, tried = manner.tried(found.ids, group.history, beams=found.beams, rows=each)
        found = replace(found, ends=ends)
        if search.observe:
            search.observe(growth_of(before, found, divisors=divisors, group=number))
        front, chosen, (_, moved) = advance(before, _ordered(found) if number else found, divisors=divisors)
        group.trellis.grow(front.sentences, origins=chosen.beams, ids=chosen.ids, log_probabilities=chosen.values)
        lives = (chosen.totals > -math.inf) & ~chosen.ends & ~before.done.unsqueeze(1)
        taken = taken.scatter_add(1, chosen.ids, search.diversity * lives.to(taken.dtype))
        grown.append(replace(group, front=front, history=followed(tried, chosen.ranks)))
        beams.append(chosen.beams + number * group.width)
        ids.append(chosen.ids)
        changed = changed or moved
    return grown, torch.cat(beams, 1), torch.cat(ids, 1), changed


def _ordered(found: Candidates) -> Candidates:
    """The continuations that a group takes, in the order of its choice, as `advance` looks for them: those that end it
    and are among the first half, then those that live on, by the model's own probabilities; the others are impossible.
    """
    width = found.ends.size(1) // 2
    ended = found.ends & (torch.arange(2 * width, device=found.ends.device) < width)
    lives = ~found.ends & ((~found.ends).cumsum(1) <= width)
    totals = found.totals.masked_fill(~(ended | lives), -math.inf)
    order = totals.masked_fill(ended, math.inf).sort(dim=1, descending=True, stable=True).indices
    return replace(found, totals=totals).take(order)


def _step(
    step: Step, state: State, groups: Sequence[_Group], ids: Int[Tensor, "G width"]
) -> tuple[Float[Tensor, "N V"], State]:
    """One step of all live hypotheses; a group that is done in its sentence steps with no token."""
    fronts = [each.front for each in groups]
    each = [torch.where(front.done, -1, front.first + front.counts - 1) for front in fronts]
    positions = torch.stack(each, 1).repeat_interleave(groups[0].width, 1)
    segments = fronts[0].segments
    tokens = Tokens(
        ids.view(-1, 1),
        positions.view(-1, 1),
        None if segments is None else segments.repeat_interleave(ids.size(1), 0),
    )
    logits, state = step(tokens, state)
    return logits[:, -1], state


def _merged(found: Sequence[tuple[Ended, Bool[Tensor, "B n"]]], *, n_best: int) -> Ended:
    """The best of all groups, and what several found once; those that had ended go before those that live."""
    names = [field.name for field in fields(Ended)]
    parts = {name: torch.cat([getattr(each, name) for each, _ in found], 1) for name in names}
    ended = torch.cat([had for _, had in found], 1)
    scores = parts["scores"]
    places = torch.arange(parts["ids"].size(2), device=scores.device)
    ids = torch.where(places < parts["counts"].unsqueeze(2), parts["ids"], -1)
    same = (ids.unsqueeze(1) == ids.unsqueeze(2)).all(3) & (ended.unsqueeze(1) == ended.unsqueeze(2))
    same &= (scores > -math.inf).unsqueeze(1)
    again = same.tril(-1).any(2)
    parts["scores"] = scores = scores.masked_fill(again, -math.inf)
    order = scores.sort(dim=1, descending=True, stable=True).indices
    rank = torch.where(scores == -math.inf, 2, (~ended).long()).gather(1, order).sort(dim=1, stable=True).indices
    order = order.gather(1, rank)[:, :n_best]

    def best(part: Tensor) -> Tensor:
        return part.gather(1, order if part.dim() == 2 else order.unsqueeze(2).expand(-1, -1, part.size(2)))

    return Ended(*(best(parts[name]) for name in names))
