"""What a stack in native code remembers: keys and values that stay where they were written, and where that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Final, final

import numpy as np
import torch
from jaxtyping import Float, Int, Int32
from torch import Tensor

from heedful.attention.keys import KeyValues
from heedful.attention.sight import Slots
from heedful.attention.space import Space, more_than
from heedful.blocks.state import LayerState, StackState
from heedful.values import Rows, laid_under

_GUESTS: Final = 16
"""Rows that new pages have room for at least, besides those that they hold."""
_LASTING: Final = 4
"""New pages have room for so many times the columns that are read, where sentences come and go and it never ends."""
_SLOTS: Final = 16
"""Memories that are joined have a multiple of so many slots, so that one that is a little longer finds room."""


@final
class Taken:
    """How many rows of pages are taken in each column, by whoever shares the pages.

    Args:
        rows: of each column.
    """

    def __init__(self, rows: Int[np.ndarray, " K"]) -> None:
        self._rows = rows
        self._lock = Lock()

    def of(self, columns: slice) -> Int[np.ndarray, " k"]:
        """Of these columns."""
        return self._rows[columns].copy()

    def take(self, columns: slice, rows: int) -> None:
        """The first rows of columns that nobody else may write into."""
        with self._lock:
            self._rows[columns] = rows

    def claim(self, columns: slice, rows: int, *, size: int) -> int | None:
        """The first of so many rows that nobody has in these columns; None where there are none."""
        with self._lock:
            first = int(self._rows[columns].max(initial=0))
            if first + rows > size:
                return None
            self._rows[columns] = first + rows
            return first


@dataclass(frozen=True)
class Pages:
    """The keys and values that tokens have left in all layers; whoever comes first may write into free columns, or into
    free rows of others.
    """

    numbers: Float[Tensor, "depth R K 2 width"]
    space: Space
    taken: Taken

    @classmethod
    def nothing(cls, depth: int, rows: int, width: int) -> Pages:
        """Without a column."""
        return cls(torch.empty(depth, rows, 0, 2, width), Space(0, 0), Taken(np.zeros(0, np.int64)))

    @classmethod
    def holding(cls, numbers: Float[Tensor, "B depth K 2 width"]) -> Pages:
        """These, with room for more rows and columns."""
        rows, depth, size, pair, width = numbers.shape
        columns = more_than(size, 1)
        whole = numbers.new_empty(depth, rows + max(_GUESTS, rows // 4), columns, pair, width)
        whole[:, :rows, :size] = numbers.transpose(0, 1)
        taken = np.zeros(columns, np.int64)
        taken[:size] = rows
        return cls(whole, Space(size, columns), Taken(taken))

    def behind(self, columns: slice, *, rows: int, newest: int) -> tuple[Pages, int]:
        """Pages with these columns and room behind them for the newest ones of so many rows: these pages, or others
        that begin with them; and where they begin.
        """
        begin, end = columns.stop, columns.stop + newest
        if rows <= self.numbers.size(1) and self.space.claim(begin, end):
            self.taken.take(slice(begin, end), rows)
            return self, columns.start
        depth, before, _, pair, width = self.numbers.shape
        told, read = self.taken.of(columns), begin - columns.start
        size = more_than(read + newest, newest) if columns.start == 0 else _LASTING * (read + newest)
        numbers, used = self.numbers.new_empty(depth, max(rows, before), size, pair, width), told.max(initial=0)
        numbers[:, :used, :read].copy_(self.numbers[:, :used, columns])
        taken = np.zeros(size, np.int64)
        taken[:read], taken[read : read + newest] = told, rows
        return Pages(numbers, Space(read + newest, size), Taken(taken)), 0


@dataclass(frozen=True)
class Across:
    """A memory as all layers project it, once for each sentence.

    Attributes:
        numbers: keys and values; behind those of its sentences there may be room for others.
        positions: -1 where a slot is empty.
        of: which sentence each row of the state looks at.
        sentences: how many there are room for before others came.
        space: who has which of them.
    """

    numbers: Float[Tensor, "depth S slots 2 width"]
    positions: Int32[Tensor, "S slots"]
    of: Int32[Tensor, " B"]
    sentences: int
    space: Space

    @classmethod
    def whole(cls, numbers: Float[Tensor, "depth B slots 2 width"], positions: Int32[Tensor, "B slots"]) -> Across:
        """A row for each sentence, and no room for others."""
        count = len(positions)
        return cls(numbers, positions, torch.arange(count, dtype=torch.int32), count, Space(count, count))

    @cached_property
    def addresses(self) -> tuple[int, ...]:
        """As native code wants it."""
        return (*(each.data_ptr() for each in (self.numbers, self.positions, self.of)), *self.positions.shape)

    def rearrange(self, rows: Rows) -> Across:
        """With other rows; sentences stay where they are, and so do rows that change places within one."""
        if rows.groups is None and not rows.free and len(rows.origin) == len(self.of):
            return self
        return replace(self, of=self.of.index_select(0, rows.origin))

    def joined(self, others: Sequence[Across]) -> Across:
        """With the rows of others: behind these sentences, where there is room for theirs, or else beside those of
        them that some row looks at.
        """
        slots = max(part.positions.size(1) for part in others)
        used = [torch.unique(part.of, return_inverse=True) for part in others]
        begin, count = self.sentences, sum(len(sentences) for sentences, _ in used)
        own = self
        if slots > self.positions.size(1) or not self.space.claim(begin, begin + count):
            own = self._with_room(count, slots=slots)
            begin = own.sentences - count
        of = [own.of]
        for part, (sentences, rows) in zip(others, used, strict=True):
            end, size = begin + len(sentences), part.positions.size(1)
            own.numbers[:, begin:end, :size] = part.numbers[:, sentences]
            own.positions[begin:end, :size] = part.positions[sentences]
            of.append(rows.int() + begin)
            begin = end
        return replace(own, of=torch.cat(of), sentences=begin)

    def _with_room(self, count: int, *, slots: int) -> Across:
        """The sentences that some row looks at, so many behind them that are taken, and as many as both that are free.

        Args:
            count: sentences that come.
            slots: of the longest of them.
        """
        used, of = torch.unique(self.of, return_inverse=True)
        filled = (self.positions[used] >= 0).any(0).nonzero()
        own = int(filled[-1]) + 1 if len(filled) else 0
        size, sentences = -(-max(slots, own) // _SLOTS) * _SLOTS, len(used) + count
        depth, _, _, pair, width = self.numbers.shape
        numbers = self.numbers.new_empty(depth, 2 * sentences, size, pair, width)
        numbers[:, : len(used), :own] = self.numbers[:, used, :own]
        positions = self.positions.new_full((2 * sentences, size), -1)
        positions[: len(used), :own] = self.positions[used, :own]
        return Across(numbers, positions, of.int(), sentences, Space(sentences, 2 * sentences))

    def explicit(self, heads: int) -> tuple[Slots, list[KeyValues]]:
        """Where its keys are, and the keys and values of each layer, for each row of the state."""
        numbers = self.numbers[:, self.of]
        return Slots(self.positions[self.of].long()), [_split(layer, heads) for layer in numbers]


@dataclass(frozen=True)
class NativeState:
    """What was read so far. Rearranging rows rearranges the table; keys and values stay in their pages.

    Attributes:
        across: each memory by its name.
        pages: keys and values of what was read; None before anything was.
        table: of each row and column the row of the pages, -1 where there is nothing, and the position.
        begin: the column of the pages that is the table's first.
        whole: a text was read of which all tokens saw all others; nothing may follow it.
    """

    across: Mapping[str, Across]
    pages: Pages | None = None
    table: Int32[Tensor, "B K 2"] | None = None
    begin: int = 0
    whole: bool = False

    @property
    def read(self) -> int:
        """Columns of the table."""
        return 0 if self.table is None else self.table.size(1)

    @property
    def columns(self) -> slice:
        """Those of the pages that the table is of."""
        return slice(self.begin, self.begin + self.read)

    def rearrange(self, rows: Rows) -> NativeState:
        """With other rows."""
        across = {name: each.rearrange(rows) for name, each in self.across.items()}
        table = None if self.table is None else self.table.index_select(0, rows.origin)
        return replace(self, across=across, table=table)

    def joined(self, others: Sequence[NativeState]) -> NativeState:
        """With the rows of others: in the pages of this one, where these have room for them, or in new ones that hold
        what all have read and no more.
        """
        across = {name: each.joined([part.across[name] for part in others]) for name, each in self.across.items()}
        if all(part.table is None for part in (self, *others)):
            return replace(self, across=across)
        guests = [part.gathered() for part in others if part.table is not None]
        found = self._beside(guests) if len(guests) == len(others) else None
        return replace(self._together(others) if found is None else found, across=across)

    def _beside(self, guests: Sequence[tuple[Tensor, Tensor]]) -> NativeState | None:
        """Others as guests in these pages, in the newest columns, where they have left nothing yet.

        Columns are forgotten that come before everybody's first.
        """
        if self.pages is None or self.table is None:
            return None
        kept = (self.table[..., 0] >= 0).any(0).nonzero()
        columns = max(positions.size(1) for _, positions in guests)
        if columns > self.read or not len(kept):
            return None
        table = self.table[:, min(int(kept[0]), self.read - columns) :]
        read, end = table.size(1), self.columns.stop
        count, whole = sum(len(positions) for _, positions in guests), self.pages.numbers
        first = self.pages.taken.claim(slice(end - columns, end), count, size=whole.size(1))
        if first is None:
            return None
        tables = [table]
        for numbers, positions in guests:
            rows, size = positions.shape
            whole[:, first : first + rows, end - size : end] = numbers.transpose(0, 1)
            table = torch.full((rows, read, 2), -1, dtype=torch.int32)
            own = torch.arange(first, first + rows, dtype=torch.int32).unsqueeze(1)
            table[:, read - size :] = torch.stack((torch.where(positions < 0, -1, own), positions), 2)
            tables.append(table)
            first += rows
        return replace(self, table=torch.cat(tables), begin=end - read)

    def _together(self, others: Sequence[NativeState]) -> NativeState:
        """New pages for all."""
        parts = (self, *others)
        gathered = [part.gathered() for part in parts if part.table is not None]
        numbers = laid_under([each for each, _ in gathered], axis=2, fill=0.0, left=True)
        positions = laid_under([each for _, each in gathered], axis=1, fill=-1, left=True)
        rows = torch.arange(len(positions), dtype=torch.int32).unsqueeze(1)
        table = torch.stack((torch.where(positions < 0, -1, rows), positions), 2)
        size = table.size(1)
        tables, at = [], 0
        for part in parts:
            count = 0 if part.table is None else len(part.table)
            tables.append(table[at : at + count] if count else part.nothing(size))
            at += count
        return replace(self, pages=Pages.holding(numbers), table=torch.cat(tables), begin=0)

    def nothing(self, columns: int) -> Int32[Tensor, "B K 2"]:
        """The table of rows that have read nothing."""
        return torch.full((len(next(iter(self.across.values())).of), columns, 2), -1, dtype=torch.int32)

    def gathered(self) -> tuple[Float[Tensor, "B depth K 2 width"], Int32[Tensor, "B K"]]:
        """The keys and values of each row, side by side in the order in which they were read, the newest at the end of
        all rows, and their positions.
        """
        assert self.pages is not None and self.table is not None
        slots, positions = self.table.long().unbind(2)
        most = int((slots >= 0).sum(1).amax())
        order = (slots >= 0).byte().sort(dim=1, stable=True).indices[:, self.read - most :]
        slots, positions = slots.gather(1, order), positions.gather(1, order)
        numbers = self.pages.numbers[:, slots.clamp(min=0), order + self.begin].transpose(0, 1)
        numbers = numbers.masked_fill((slots < 0)[:, None, :, None, None], 0.0)
        return numbers, torch.where(slots < 0, -1, positions).int()

    def explicit(self, *, depth: int, heads: int) -> StackState:
        """The same for a stack of modules."""
        across = {name: each.explicit(heads) for name, each in self.across.items()}
        past, layers = None, list[KeyValues | None]([None] * depth)
        if self.pages is not None:
            numbers, positions = self.gathered()
            past, layers = Slots(positions.long()), [_split(layer, heads) for layer in numbers.transpose(0, 1)]
        states = (
            LayerState(layers[number], {name: each[1][number] for name, each in across.items()})
            for number in range(depth)
        )
        return StackState(past, {name: slots for name, (slots, _) in across.items()}, tuple(states))


def _split(layer: Float[Tensor, "B K 2 width"], heads: int) -> KeyValues:
    """Keys and values by heads."""
    rows, count, _, width = layer.shape
    key, value = layer.view(rows, count, 2, heads, width // heads).permute(2, 0, 3, 1, 4)
    return KeyValues(key, value)
