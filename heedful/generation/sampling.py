"""Greedy search and sampling."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation.after import After
from heedful.generation.columns import Column, Rest, begin, columns_of, drained
from heedful.generation.filters import Filter
from heedful.generation.history import Manner
from heedful.generation.hypotheses import Ended, Found, Hypotheses
from heedful.generation.pick import Best, Pick
from heedful.generation.repetition import Penalty
from heedful.generation.start import Start, at_least_single, check_prefix, limits, read_prompt
from heedful.generation.stopping import AnyOf, AtToken, Stop, Until, never
from heedful.models.interface import State, Step
from heedful.values import Rows, Tokens, select


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
    live = begin(start, limited, copies=n, streams=streams)
    logits = start.logits
    if n > 1:
        state = select(state, Rows.branch(len(limited), n, device=logits.device))
        logits = logits.repeat_interleave(n, 0)
    manner = Manner(AtToken(eos) if stop is None else AnyOf((AtToken(eos), stop)), tuple(penalties))
    state = (state, manner.begin(prompt, start, copies=n))
    columns, rest = drained(
        columns_of(step, state, logits, live=live, copies=n, pick=pick, manner=manner, until=until, keep=keep)
    )
    ended, order = _ended(columns, rest, start, eos=eos, copies=n)
    if not keep:
        return Found(ended.listed(start))
    first = start.positions.repeat_interleave(n)
    after = After.of(rest.state(order), ended.written(start), first=first)
    return Found(ended.listed(start), after)


def _ended(
    columns: list[Column], rest: Rest, start: Start, *, eos: int, copies: int
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
