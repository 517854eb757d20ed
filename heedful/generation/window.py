"""Reading on where a model's positions end: the newest part of the text is read again from position 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.errors import RecipeError
from heedful.models.interface import Engine, State, Strides
from heedful.values import Bounds, Rows, Tokens, Written, join, one_width, select

_PIECE = 128
"""Columns that are read again at a time: logits of a whole context, which nobody wants, would fill the memory."""


@dataclass(frozen=True)
class WindowState:
    """A model's state, and the tokens that it has read.

    Attributes:
        inner: of the model.
        text: id and segment of those of each row, in their order from the left; None before the first.
        counts: how many there are.
        parted: whether any token had a segment; where none has, the model is given none.
        width: rows of a group, see `heedful.values.Rows`.
    """

    inner: State
    text: Int[Tensor, "N L 2"] | None = None
    counts: Int[Tensor, " N"] | None = None
    parted: bool = False
    width: int = 1

    def rearrange(self, rows: Rows) -> WindowState:
        """With other rows."""
        inner, text, counts = select((self.inner, self.text, self.counts), rows)
        return WindowState(inner, text, counts, self.parted, 1 if rows.free else rows.width)

    def joined(self, others: Sequence[WindowState]) -> WindowState:
        """With the rows of others."""
        parts = (self, *others)
        inner, text, counts = join([(part.inner, part.text, part.counts) for part in parts])
        parted = any(part.parted for part in parts)
        return WindowState(inner, text, counts, parted, one_width(part.width for part in parts))


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
        if state.parted and tokens.segments is None:
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

    def stride(self, tokens: Tokens, state: WindowState, *, bounds: Bounds) -> tuple[Written, WindowState] | None:
        """As many steps of greedy search as fit, if the engine knows how to take them at once."""
        if not isinstance(self._engine, Strides) or state.text is None or state.counts is None:
            return None
        bounds = replace(bounds, steps=min(bounds.steps, self.longest - int(state.counts.amax())))
        if bounds.steps < 2:
            return None
        real = tokens.positions >= 0
        places = torch.where(real, state.counts.unsqueeze(1), -1)
        found = self._engine.stride(replace(tokens, positions=places), state.inner, bounds=bounds)
        if found is None:
            return None
        written, inner = found
        ids = torch.cat((tokens.ids, written.ids[:-1].T), 1)
        goes_on = torch.cat((real, written.positions[1:].T >= 0), 1)
        segments = None if tokens.segments is None else tokens.segments.expand_as(ids)
        read = Tokens(ids, torch.where(goes_on, 0, -1), segments)
        sizes = state.counts.unsqueeze(1) + goes_on.cumsum(1)
        return written, self._behind(read, replace(state, inner=inner), sizes=sizes)

    def _known(self, state: WindowState, tokens: Tokens) -> WindowState:
        parted, rows = state.parted or tokens.segments is not None, len(tokens.ids)
        if state.text is not None:
            return replace(state, parted=parted)
        text = tokens.ids.new_zeros(rows, self.longest, 2)
        return replace(state, text=text, counts=tokens.ids.new_zeros(rows), parted=parted)

    def _on(
        self, tokens: Tokens, state: WindowState, *, sizes: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T V"], WindowState]:
        """Tokens that fit; `sizes` counts the tokens of each row, each of these included."""
        assert state.text is not None
        real = tokens.positions >= 0
        places = torch.where(real, sizes - 1, -1)
        logits, inner = self._engine.step(replace(tokens, positions=places), state.inner)
        return logits, self._behind(tokens, replace(state, inner=inner), sizes=sizes)

    def _behind(self, tokens: Tokens, state: WindowState, *, sizes: Int[Tensor, "B T"]) -> WindowState:
        """The state with these tokens in its text."""
        assert state.text is not None
        real = tokens.positions >= 0
        places = torch.where(real, sizes - 1, self.longest)
        room = functional.pad(state.text, (0, 0, 0, 1))  # what is no token falls into the last column
        text = room.scatter_(1, places.unsqueeze(2).expand(-1, -1, 2), _text(tokens))[:, :-1]
        return replace(state, text=text, counts=sizes[:, -1])

    def _again(self, token: Tokens, state: WindowState) -> tuple[Float[Tensor, "B 1 V"], WindowState]:
        """One token of each row, which does not fit into some."""
        assert state.text is not None and state.counts is not None
        real = token.positions[:, 0] >= 0
        sizes = state.counts + real
        counts = torch.where(sizes > self.longest, self.kept, sizes)
        places = (sizes - counts).unsqueeze(1) + torch.arange(self.longest, device=real.device)
        whole = torch.cat((state.text, torch.zeros_like(state.text[:, :1])), 1)
        rows = torch.arange(len(real), device=real.device)
        whole[rows, state.counts] = torch.where(real.unsqueeze(1), _text(token)[:, 0], 0)
        text = whole[rows.unsqueeze(1), places.clamp(max=self.longest)]
        logits, inner = self._read(text, counts, state)
        return logits, replace(state, inner=inner, text=text, counts=counts)

    def _read(
        self, text: Int[Tensor, "B L 2"], counts: Int[Tensor, " B"], before: WindowState
    ) -> tuple[Float[Tensor, "B 1 V"], State]:
        """What follows the last of these tokens, and the state behind it, with groups and segments as before."""
        inner, found, width = self._engine.begin(None), None, before.width
        if width > 1:
            inner = select(inner, Rows.branch(len(text) // width, width, device=text.device))
        rows, columns = torch.arange(len(text), device=text.device), int(counts.max())
        places = torch.arange(columns, device=text.device).expand(len(text), -1)
        positions = torch.where(places < counts.unsqueeze(1), places, -1)
        ids, segments = text[:, :columns].unbind(2)
        tokens = Tokens(ids, positions, segments if before.parted else None)
        for start in range(0, columns, _PIECE):
            piece = tokens.span(start, start + _PIECE)
            logits, inner = self._engine.step(piece, inner)
            last = (counts - 1 - start).clamp(0, logits.size(1) - 1)
            here = logits[rows, last]
            found = here if found is None else torch.where((counts > start).unsqueeze(1), here, found)
        assert found is not None
        return found.unsqueeze(1), inner


def _text(tokens: Tokens) -> Int[Tensor, "B T 2"]:
    return torch.stack((tokens.ids, torch.zeros_like(tokens.ids) if tokens.segments is None else tokens.segments), 2)


def kept_of(length: int, *, longest: int, kept: int | None = None) -> int:
    """How many of a text's `length` tokens a `Windowed` model still has in its context when all are read."""
    kept = max(1, longest // 2) if kept is None else kept
    dropped = longest + 1 - kept
    return length - -(-max(0, length - longest) // dropped) * dropped
