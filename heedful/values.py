"""What flows between the rooms: tokens in, memory between encoder and decoder, and the rows of a state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

Nest = TypeVar("Nest")

Fate = Literal["lived", "ended", "pruned"]
"""Of a token that a beam tried: went on; ended the text and was kept; was ranked too low to go on."""


@dataclass(frozen=True)
class Tokens:
    """Everything textual that enters a model: what each token is, and where it is.

    `positions` is -1 where there is no token. Padding, causality, windows and every kind of position encoding follow
    from it, so a model never needs to know which id means padding.
    """

    ids: Int[Tensor, "B T"]
    positions: Int[Tensor, "B T"]
    segments: Int[Tensor, "B T"] | None = None

    @classmethod
    def of(cls, ids: Int[Tensor, "B T"], *, pad: int) -> Tokens:
        """Tokens counted from 0 in each row, skipping every `pad` (left or right)."""
        real = ids != pad
        return cls(ids, torch.where(real, real.cumsum(1) - 1, -1))

    def span(self, start: int, stop: int | None = None) -> Tokens:
        """The columns from `start` up to `stop`; ids keep their positions."""
        segments = None if self.segments is None else self.segments[:, start:stop]
        return Tokens(self.ids[:, start:stop], self.positions[:, start:stop], segments)


@dataclass(frozen=True)
class Memory:
    """Everything a decoder can look at: encoded words, regions, stored facts; -1 in `positions` is an empty slot."""

    keys: Float[Tensor, "B S d_key"]
    values: Float[Tensor, "B S d_value"]
    positions: Int[Tensor, "B S"]
    summary: Float[Tensor, "B d_summary"]


@dataclass(frozen=True)
class Rows:
    """Which old row each new row of a state continues.

    Rows come in groups of `width` consecutive rows (the beams of one sentence). Because a new row may only continue an
    old row of its own group, whatever the rows of a group share need not be copied when they are rearranged.

    Attributes:
        origin: the old row that each new row continues, [B].
        groups: the old group of each new group, [G]; None keeps all groups in their order.
        width: rows in each new group; B = G * width.
        free: rows are picked regardless of groups; each new row is a group of its own.
    """

    origin: Int[Tensor, " B"]
    groups: Int[Tensor, " G"] | None = None
    width: int = 1
    free: bool = False

    @classmethod
    def any(cls, origin: Int[Tensor, " B"]) -> Rows:
        """Rows picked freely; nothing stays shared."""
        return cls(origin, free=True)

    @classmethod
    def branch(cls, groups: int, width: int, *, device: torch.device) -> Rows:
        """Each of `groups` rows becomes `width` rows that continue it."""
        return cls(torch.arange(groups, device=device).repeat_interleave(width), None, width)

    @classmethod
    def within(cls, choice: Int[Tensor, "G width"]) -> Rows:
        """Within each group, row j continues the group's row `choice[:, j]`."""
        groups, width = choice.shape
        first = torch.arange(groups, device=choice.device).unsqueeze(1) * width
        return cls((choice + first).flatten(), None, width)

    @classmethod
    def keep(cls, groups: Int[Tensor, " G"], width: int) -> Rows:
        """Whole groups, the others dropped."""
        inside = torch.arange(width, device=groups.device)
        return cls((groups.unsqueeze(1) * width + inside).flatten(), groups, width)

    def source_groups(self, width: int) -> Int[Tensor, " G"] | None:
        """The old group of each new group, if groups had `width` rows; None when groups stay where they are."""
        return self.origin // width if self.free else self.groups


@runtime_checkable
class Rearranged(Protocol):
    """A part of a state that knows a cheaper way to rearrange its rows than copying them."""

    def rearrange(self, rows: Rows) -> Any:
        """This part with the rows of `rows`."""
        ...


def select(state: Nest, rows: Rows | Int[Tensor, " B"]) -> Nest:
    """A state whose row i continues row `rows[i]` of this one: beam search, finished rows, shuffled batches.

    A state is any nest of frozen dataclasses, tuples and batch-first tensors. Parts with a `rearrange` method of their
    own are asked to do it themselves.
    """
    chosen = Rows.any(rows) if isinstance(rows, Tensor) else rows
    result: Nest = _select(state, chosen)
    return result


def _select(state: Any, rows: Rows) -> Any:
    if isinstance(state, Tensor):
        return state.index_select(0, rows.origin)
    if isinstance(state, tuple):
        return tuple(_select(part, rows) for part in state)
    if isinstance(state, Rearranged):
        return state.rearrange(rows)
    if is_dataclass(state) and not isinstance(state, type):
        return replace(state, **{f.name: _select(getattr(state, f.name), rows) for f in fields(state)})
    assert state is None or isinstance(state, int), f"a state may not hold {type(state).__name__}"
    return state


def move(value: Nest, device: torch.device | str) -> Nest:
    """The same nest of dataclasses, tuples and tensors on another device."""
    result: Nest = _each(value, lambda tensor: tensor.to(device, non_blocking=True))
    return result


def detach(value: Nest) -> Nest:
    """The same nest, through which no gradient flows back."""
    result: Nest = _each(value, Tensor.detach)
    return result


def _each(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_each(part, change) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _each(getattr(value, f.name), change) for f in fields(value)})
    return value
