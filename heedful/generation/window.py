"""Reading on where a model's positions end: the newest part of the text is read again from position 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.models.interface import Engine, State
from heedful.values import Rows, Tokens, join, one_width, select

_PIECE = 128
"""Columns that are read again at a time: logits of a whole context, which nobody wants, would fill the memory."""


@dataclass(frozen=True)
class WindowState:
    """A model's state, and the tokens that it has read.

    Attributes:
        inner: of the model.
        ids: those of each row, in their order from the left; None before the first.
        counts: how many there are.
        segments: of those tokens; None while none has one.
        width: rows of a group, see `heedful.values.Rows`.
    """

    inner: State
    ids: Int[Tensor, "N L"] | None = None
    counts: Int[Tensor, " N"] | None = None
    segments: Int[Tensor, "N L"] | None = None
    width: int = 1

    def rearrange(self, rows: Rows) -> WindowState:
        """With other rows."""
        ids, counts, segments = select((self.ids, self.counts, self.segments), rows)
        return WindowState(select(self.inner, rows), ids, counts, segments, 1 if rows.free else rows.width)

    def joined(self, others: Sequence[WindowState]) -> WindowState:
        """With the rows of others."""
        parts = (self, *others)
        if any(part.segments is not None for part in parts):
            parts = tuple(part.parted() for part in parts)
        inner, ids, counts, segments = join([(part.inner, part.ids, part.counts, part.segments) for part in parts])
        return WindowState(inner, ids, counts, segments, one_width(part.width for part in parts))

    def parted(self) -> WindowState:
        """With segments, all of them 0 where none has one."""
        if self.ids is None or self.segments is not None:
            return self
        return replace(self, segments=torch.zeros_like(self.ids))


@final
class Windowed:
    """An engine that has a longest context, as one that has none.

    A row reads at positions 0, 1, ... until `longest` tokens are read. The token after those does not fit: with it, the
    newest `kept` tokens are read again as if the text began with them, at positions 0 to `kept` - 1, and so on. When a
    row does so depends on its own tokens only; its neighbours are read again unchanged where it happens.

    Args:
        engine: looks at no source.
        longest: tokens that have a position.
        kept: of them, how many stay; a half unless given. `longest` reads all of them again for every token.
    """

    def __init__(self, engine: Engine[None], *, longest: int, kept: int | None = None) -> None:
        kept = max(1, longest // 2) if kept is None else kept
        if not 1 <= kept <= longest:
            raise RecipeError(f"context: keeping {kept} of {longest} tokens; must be from 1 to all of them")
        self.longest = longest
        self.kept = kept
        self._engine = engine

    @property
    def device(self) -> torch.device:
        """The engine's own."""
        return self._engine.device

    def begin(self, source: None = None) -> WindowState:
        """Nothing is read."""
        return WindowState(self._engine.begin(None))

    def step(self, tokens: Tokens, state: WindowState) -> tuple[Float[Tensor, "B T V"], WindowState]:
        """As `Engine.step`; of the positions it only counts which tokens exist."""
        state = self._known(state, tokens)
        if tokens.segments is not None:
            state = state.parted()
        elif state.segments is not None:
            tokens = replace(tokens, segments=torch.zeros_like(tokens.ids))
        if not tokens.ids.size(1):
            logits, inner = self._engine.step(tokens, state.inner)
            return logits, replace(state, inner=inner)
        real, parts, at = tokens.positions >= 0, [], 0
        while at < real.size(1):
            assert state.counts is not None
            sizes = state.counts.unsqueeze(1) + real[:, at:].cumsum(1)
            run = int((sizes <= self.longest).all(0).sum())
            piece = tokens.span(at, at + max(run, 1))
            logits, state = self._on(piece, state, sizes=sizes[:, :run]) if run else self._again(piece, state)
            parts.append(logits)
            at += max(run, 1)
        return torch.cat(parts, 1), state

    def _known(self, state: WindowState, tokens: Tokens) -> WindowState:
        if state.ids is not None:
            return state
        rows = len(tokens.ids)
        return replace(state, ids=tokens.ids.new_zeros(rows, self.longest), counts=tokens.ids.new_zeros(rows))

    def _on(
        self, tokens: Tokens, state: WindowState, *, sizes: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T V"], WindowState]:
        """Tokens that fit; `sizes` counts the tokens of each row, each of these included."""
        assert state.ids is not None
        places = torch.where(tokens.positions >= 0, sizes - 1, -1)
        logits, inner = self._engine.step(replace(tokens, positions=places), state.inner)
        ids, segments = self._noted(state.ids, tokens.ids, places), state.segments
        if segments is not None and tokens.segments is not None:
            segments = self._noted(segments, tokens.segments, places)
        return logits, replace(state, inner=inner, ids=ids, counts=sizes[:, -1], segments=segments)

    def _noted(
        self, row: Int[Tensor, "B L"], newer: Int[Tensor, "B T"], places: Int[Tensor, "B T"]
    ) -> Int[Tensor, "B L"]:
        room = torch.nn.functional.pad(row, (0, 1))  # what is no token falls into the last column
        return room.scatter_(1, torch.where(places >= 0, places, self.longest), newer)[:, :-1]

    def _again(self, token: Tokens, state: WindowState) -> tuple[Float[Tensor, "B 1 V"], WindowState]:
        """One token of each row, which does not fit into some."""
        assert state.ids is not None and state.counts is not None
        before, real = state.counts.unsqueeze(1), token.positions[:, 0] >= 0
        sizes = state.counts + real
        counts = torch.where(sizes > self.longest, self.kept, sizes)
        places = (sizes - counts).unsqueeze(1) + torch.arange(self.longest, device=real.device)

        def newest(row: Tensor, newer: Tensor) -> Tensor:
            whole = torch.cat((row, newer), 1)
            whole.scatter_(1, before, torch.where(real, newer[:, 0], 0).unsqueeze(1))
            return whole.gather(1, places.clamp(max=self.longest))

        ids, segments = newest(state.ids, token.ids), state.segments
        if segments is not None and token.segments is not None:
            segments = newest(segments, token.segments)
        logits, inner = self._read(ids, counts, segments=segments, width=state.width)
        return logits, replace(state, inner=inner, ids=ids, counts=counts, segments=segments)

    def _read(
        self, ids: Int[Tensor, "B L"], counts: Int[Tensor, " B"], *, segments: Int[Tensor, "B L"] | None, width: int
    ) -> tuple[Float[Tensor, "B 1 V"], State]:
        """What follows the last of these tokens, and the state behind it."""
        inner, found = self._engine.begin(None), None
        if width > 1:
            inner = select(inner, Rows.branch(len(ids) // width, width, device=ids.device))
        places = torch.arange(int(counts.max()), device=ids.device).expand(len(ids), -1)
        positions = torch.where(places < counts.unsqueeze(1), places, -1)
        rows, columns = torch.arange(len(ids), device=ids.device), positions.size(1)
        tokens = Tokens(ids[:, :columns], positions, None if segments is None else segments[:, :columns])
        for start in range(0, columns, _PIECE):
            piece = tokens.span(start, start + _PIECE)
            logits, inner = self._engine.step(piece, inner)
            last = (counts - 1 - start).clamp(0, logits.size(1) - 1)
            here = logits[rows, last]
            found = here if found is None else torch.where((counts > start).unsqueeze(1), here, found)
        assert found is not None
        return found.unsqueeze(1), inner


def kept_of(length: int, *, longest: int, kept: int | None = None) -> int:
    """How many of a text's `length` tokens a `Windowed` model still has in its context when all are read."""
    if length <= longest:
        return length
    kept = max(1, longest // 2) if kept is None else kept
    dropped = longest + 1 - kept
    return length - -(-(length - longest) // dropped) * dropped
