"""Beam search over anything that steps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation import native
from heedful.generation.front import Candidates, Front, Growth, Traced, Trellis
from heedful.generation.history import History, Manner, followed
from heedful.generation.hypotheses import After, Ended, Found
from heedful.generation.penalties import LengthPenalty
from heedful.generation.pick import filtered
from heedful.generation.ranking import Top, normalisers, top_k
from heedful.generation.scoring import at_least_single
from heedful.generation.start import Request, Start, read_prompt
from heedful.generation.terms import Banks
from heedful.models.interface import State, Step
from heedful.values import Rows, Tokens, join, select

if TYPE_CHECKING:
    from heedful.generation.search import Beam, Diverse

# Share of the sentences that must be done before their rows are dropped. With a small Transformer on a CPU anything
# from 0 to a half costs the same within a tenth; never dropping costs up to half as much again.
WORTH_DROPPING = 0.25


@torch.inference_mode()
def found_by_beams(step: Step, state: State, request: Request, *, search: Beam) -> Found:
    """The best answers, and if it is to be kept, where the model stands behind each.

    What a beam of the past has read is gone when its hypothesis turns out to be the best, so the answers are then read
    once more, as one chunk.
    """
    _check(search.width, search.n_best)
    start, begun = read_prompt(step, state, request, eos=search.eos)
    front = Front.of(start, width=search.width, n_best=search.n_best)
    divisors, trellis = divisors_of(front, search.length_penalty), Trellis(len(start.limits), search.width)
    manner = Manner.of(request, eos=search.eos, penalties=search.penalties, bans=search.bans)
    read, history, logits = begun, manner.begin(request.prompt, start), start.logits
    banks = None if request.terms is None else request.terms.begin(start, eos=search.eos)
    parts, rows, width = [], 1, search.width
    running = not bool(front.done.all()) and not request.until()
    while running:
        logits = at_least_single(logits)
        found = continuations(logits, front, history, rows=rows, manner=manner, search=search, banks=banks)
        ends, tried = manner.tried(found.ids, history, beams=found.beams, rows=rows)
        found = replace(found, ends=ends)
        if search.observe:
            search.observe(growth_of(front, found, divisors=divisors))
        front, chosen, (done, moved) = advance(front, found, divisors=divisors)
        history = followed(tried, chosen.ranks)
        banks = None if banks is None else banks.followed(chosen, front)
        trellis.grow(front.sentences, origins=chosen.beams, ids=chosen.ids, log_probabilities=chosen.values)
        running = done < len(front.done) and not request.until()
        if running:
            if done >= WORTH_DROPPING * len(front.done):
                kept = (~front.done).nonzero().squeeze(1)
                parts.append(select(front, front.done.nonzero().squeeze(1)))
                front, chosen = select(front, kept), select(chosen, kept)
                read, history = select(read, Rows.keep(kept, rows)), select(history, Rows.keep(kept, width))
            read = rearranged(read, chosen.beams, rows=rows, moved=moved)
            rows = width
            logits, read = _step(step, read, front, chosen.ids)
    whole = join([*parts, front])
    whole = select(whole, whole.sentences.argsort())
    best, _ = best_of(whole, trellis, divisors=divisors, start=start, search=search)
    return Found(best.listed(start), behind(step, begun, best, start=start) if request.keep else None)


def behind(step: Step, begun: State, best: Ended, *, start: Start) -> After:
    """Behind each hypothesis that there is; `begun` is the state behind the prompts."""
    sentences, written = (best.scores > -math.inf).nonzero()[:, 0], best.written(start)
    after = After.of(select(begun, sentences), written, first=start.positions[sentences])
    known = Tokens(
        written.ids, torch.where(written.positions < after.unread.positions, written.positions, -1), written.segments
    )
    return replace(after, state=step(known, after.state)[1])


def _check(width: int, n_best: int) -> None:
    if width < 1:
        raise RecipeError(f"beam width: {width}; must be at least 1")
    if not 1 <= n_best <= width:
        raise RecipeError(f"n-best: {n_best} of a beam of width {width}; must be from 1 to the width")


def divisors_of(front: Front, length_penalty: LengthPenalty) -> Float[Tensor, " lengths"]:
    """The divisor at every length that can occur, so that no step computes it again.

    Two more than the longest, because sentences that are done may still be there when others take a step.
    """
    longest = int(torch.maximum(front.limits, front.forced).amax())
    lengths = torch.arange(longest + 3, dtype=front.live.dtype, device=front.live.device)
    return length_penalty.divisor(lengths.clamp(min=1))


def continuations(
    logits: Float[Tensor, "N V"],
    front: Front,
    history: History,
    *,
    rows: int,
    manner: Manner,
    search: Beam | Diverse,
    banks: Banks | None = None,
    taken: Float[Tensor, "G V"] | None = None,
) -> Candidates:
    """The 2 * width best, falling; minus infinity where there are fewer. Where a sentence has terms, see `Banks`.

    What is `taken` off tokens decides which are the best and in which order, and counts no further.
    """
    totals = own = normalisers(logits)
    changed = manner.changed(logits, history)
    if manner.penalties:
        totals = normalisers(changed)  # what may follow has to be a distribution again
    changed = manner.allowed(changed, history)
    if search.filters:
        lengths = (front.forced + front.counts).unsqueeze(1).expand(-1, rows).flatten()
        changed = filtered(changed, lengths, filters=search.filters)
    if taken is not None:
        changed = changed - taken.repeat_interleave(rows, 0)
    wanted, offsets = 2 * front.live.size(1), front.live[:, :rows] - totals.view(-1, rows)
    library = native.library_for(changed) if wanted <= native.MOST else None
    if library is not None:
        *found, values = native.top(library, changed, wanted, offsets, of=(logits, own))
        candidates = Candidates.of(values, Top(*found), wanted=wanted)
    else:
        best = top_k(changed, wanted, offsets=offsets)
        place = torch.arange(len(best.ids), device=logits.device).unsqueeze(1) * rows + best.members
        candidates = Candidates.of(logits[place, best.ids] - own[place], best, wanted=wanted)
    if taken is not None:
        candidates = replace(candidates, totals=candidates.totals + taken.gather(1, candidates.ids))
    if banks is None:
        return candidates
    return banks.dealt(candidates, front, changed=changed, offsets=offsets, of=(logits, own))


def growth_of(front: Front, found: Candidates, *, divisors: Float[Tensor, " lengths"], group: int = 0) -> Growth:
    """What is told of a step."""
    scores = found.totals / divisors[front.forced + front.counts + 1].unsqueeze(1)
    return Growth(front.sentences, front.done, found.beams, found.ids, found.totals, scores, group)


def advance(
    front: Front, found: Candidates, *, divisors: Float[Tensor, " lengths"]
) -> tuple[Front, Candidates, tuple[int, bool]]:
    """The front after one more token, the tokens that its live hypotheses took, and the news of it."""
    if (library := native.library_for(front.live)) is not None:
        fields, taken, (done, moved) = native.selected(
            library, found.fields(), front.moving(), divisors=divisors, forced=front.forced, limits=front.limits
        )
        return front.moved(fields), Candidates(*taken), (done, bool(moved))
    front, chosen = _advanced(front, found, divisors=divisors)
    return front, chosen, _news(front, chosen)


def _advanced(front: Front, found: Candidates, *, divisors: Float[Tensor, " lengths"]) -> tuple[Front, Candidates]:
    width, n_best = front.live.size(1), front.places.size(1)
    ending, still = found.ends, front.done.unsqueeze(1)
    lengths = front.forced + front.counts + 1

    totals = found.totals[:, :width].masked_fill(~ending[:, :width] | still, -math.inf)
    scores = totals / divisors[lengths].unsqueeze(1)
    ended = torch.cat((front.ended, torch.stack((scores, totals, found.values[:, :width]), 2)), 1)
    places = torch.cat((front.places, front.counts.unsqueeze(1) * width + found.beams[:, :width]), 1)
    last = torch.cat((front.last, found.ids[:, :width]), 1)
    order = ended[:, :, 0].sort(dim=1, descending=True, stable=True).indices[:, :n_best]
    ended = ended.gather(1, order.unsqueeze(2).expand(-1, -1, 3))

    chosen = found.take(ending.byte().sort(dim=1, stable=True).indices[:, :width])
    live = torch.where(still, front.live, chosen.totals.masked_fill(chosen.ends, -math.inf))
    largest = torch.maximum(divisors[lengths + 1], divisors[front.limits])
    beaten = live[:, 0].clamp(max=0) / largest <= ended[:, -1, 0]
    done = front.done | (lengths >= front.limits) | beaten
    places, last = places.gather(1, order), last.gather(1, order)
    return front.moved((front.counts + ~front.done, live, done, ended, places, last)), chosen


def _news(front: Front, chosen: Candidates) -> tuple[int, bool]:
    """How many sentences are done, and whether beams changed their rows; both in one wait for the device."""
    width = chosen.beams.size(1)
    stay = torch.arange(width, device=chosen.beams.device)
    moved = ((chosen.beams != stay) & ~front.done.unsqueeze(1)).any()
    done, changed = torch.stack((front.done.sum(), moved.long())).tolist()
    return done, bool(changed)


def rearranged(state: State, beams: Int[Tensor, "G width"], *, rows: int, moved: bool) -> State:
    """Behind these beams of each group, which had so many rows; the same state where no beam has moved."""
    groups, width = beams.shape
    if width == 1:
        return state
    if rows == 1:
        return select(state, Rows.branch(groups, width, device=beams.device))
    return select(state, Rows.within(beams)) if moved else state


def _step(step: Step, state: State, front: Front, ids: Int[Tensor, "G width"]) -> tuple[Float[Tensor, "N V"], State]:
    """One step of all live hypotheses; sentences that are done step with no token."""
    positions = torch.where(front.done, -1, front.first + front.counts - 1)
    width, segments = ids.size(1), front.segments
    tokens = Tokens(
        ids.view(-1, 1),
        positions.unsqueeze(1).expand(-1, width).reshape(-1, 1),
        None if segments is None else segments.repeat_interleave(width, 0),
    )
    logits, state = step(tokens, state)
    return logits[:, -1], state


def best_of(
    front: Front, trellis: Traced, *, divisors: Float[Tensor, " lengths"], start: Start, search: Beam | Diverse
) -> tuple[Ended, Bool[Tensor, "B n"]]:
    """The best ended hypotheses and, where they are too few, the best live ones behind them; and which had ended."""
    width, n_best = front.live.size(1), front.places.size(1)
    scores = front.live / divisors[front.forced + front.counts].unsqueeze(1)
    live = torch.stack((scores, front.live, torch.zeros_like(scores)), 2)
    beams = torch.arange(width, device=live.device).expand(len(live), -1)
    numbers = torch.cat((front.ended, live), 1)
    places = torch.cat((front.places, front.counts.unsqueeze(1) * width + beams), 1)
    last = torch.cat((front.last, torch.zeros_like(beams)), 1)
    order = (numbers[:, :, 0] == -math.inf).byte().sort(dim=1, stable=True).indices[:, :n_best]
    scores, totals, ending = numbers.gather(1, order.unsqueeze(2).expand(-1, -1, 3)).unbind(2)
    counts, beams = (part.gather(1, order) for part in (places // width, places % width))
    ids, values = trellis.trace(beams, counts, dtype=scores.dtype)
    values.scatter_(2, counts.unsqueeze(2), ending.unsqueeze(2))
    last = last.gather(1, order)
    ids.scatter_(2, counts.unsqueeze(2), last.unsqueeze(2))
    ended = order < n_best
    if search.penalties:  # the ranking is not by the probabilities of the model
        taken = torch.arange(values.size(2), device=values.device) < (counts + ended).unsqueeze(2)
        totals = start.log_probabilities.sum(1, keepdim=True) + torch.where(taken, values, 0.0).sum(2)
    finished = ended & (last == search.eos)
    cut = ~front.done.unsqueeze(1).expand_as(finished)
    return Ended(counts + (ended & ~finished), finished, scores, totals, ids, values, cut), ended
