"""Tokens as they are picked."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heedful.generation.columns import Rest, columns_of
from heedful.generation.history import Manner
from heedful.generation.hypotheses import After
from heedful.generation.pick import Pick
from heedful.generation.repetition import Penalty
from heedful.generation.start import Request, read_prompt
from heedful.generation.stopping import Stop, Until, never
from heedful.models.interface import State, Step
from heedful.values import Tokens


@dataclass(frozen=True)
class _End:
    """What a stream knows when it has ended: its last tokens, what comes next, and the rows that were told to stop."""

    rest: Rest
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
    request = Request(prompt, limit, prefix, streams, until=until, keep=True)
    return Stream(_streamed(step, state, request, pick=pick, manner=Manner(stop, penalties)))


@torch.inference_mode()
def _streamed(
    step: Step, state: State, request: Request, *, pick: Pick, manner: Manner
) -> Generator[Tokens, None, _End]:
    start, state = read_prompt(step, state, request)
    columns = columns_of(step, state, request, start=start, copies=1, pick=pick, manner=manner)
    segments = None if start.segments is None else start.segments.unsqueeze(1)
    unread, sizes = torch.zeros_like(start.limits), torch.zeros_like(start.limits)
    while True:
        try:
            column = next(columns)
        except StopIteration as end:
            rest: Rest = end.value
            break
        ids = torch.zeros_like(start.limits).index_copy_(0, column.rows, column.ids)
        positions = torch.full_like(start.limits, -1).index_copy_(0, column.rows, column.positions)
        unread, sizes = torch.where(positions >= 0, ids, unread), sizes + (positions >= 0)
        yield Tokens(ids.unsqueeze(1), positions.unsqueeze(1), segments)
    last = torch.where(sizes > 0, start.positions + sizes - 1, -1)
    cut = torch.zeros_like(start.limits, dtype=torch.bool).index_fill_(0, rest.cut, True)
    return _End(rest, Tokens(unread.unsqueeze(1), last.unsqueeze(1), segments), start.positions + sizes, cut)
