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

from heedful.attention.multihead import KeyValues
from heedful.attention.sight import Slots
from heedful.attention.space import Space, more_than
from heedful.blocks.transformer import LayerState, StackState
from heedful.values import Rows, laid_under

_GUESTS: Final = 16
"""Rows that new pages have room for at least, besides those that they hold."""
_SPARSE: Final = 16
"""Columns beyond twice the longest row, from which on pages that are joined are made anew."""


@final
class Taken:
    """How many rows of pages are taken in each column, by whoever shares the pages.

    Args:
        rows: of each column.
    """

    def __init__(self, rows: Int[np.ndarray, " K"]) -> None:
        self._rows = rows
        self._lock = Lock()

    def until(self, column: int) -> Int[np.ndarray, " k"]:
        """Of the first columns."""
        return self._rows[:column].copy()

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

    def behind(self, read: int, *, rows: int, newest: int) -> Pages:
        """Pages with the same columns up to `read` and room for the newest ones of so many rows: these, or a copy."""
        end = read + newest
        if rows <= self.numbers.size(1) and self.space.claim(read, end):
            self.taken.take(slice(read, end), rows)
            return self
        depth, before, _, pair, width = self.numbers.shape
        size = more_than(end, newest)
        numbers = self.numbers.new_empty(depth, max(rows, before), size, pair, width)
        numbers[:, :before, :read].copy_(self.numbers[:, :, :read])
        taken = np.zeros(size, np.int64)
        taken[:read], taken[read:end] = self.taken.until(read), rows
        return Pages(numbers, Space(end, size), Taken(taken))


@dataclass(frozen=True)
class Across:
    """A memory as all layers project it, once for each sentence.

    Attributes:
        numbers: keys and values.
        positions: -1 where a slot is empty.
        of: which sentence each row of the state looks at.
    """

    numbers: Float[Tensor, "depth S slots 2 width"]
    positions: Int32[Tensor, "S slots"]
    of: Int32[Tensor, " B"]

    @cached_property
    def addresses(self) -> tuple[int, ...]:
        """As native code wants it."""
        return (*(each.data_ptr() for each in (self.numbers, self.positions, self.of)), *self.positions.shape)

    def rearrange(self, rows: Rows) -> Across:
        """With other rows; sentences stay where they are, and so do rows that change places within one."""
        if rows.groups is None and not rows.free and len(rows.origin) == len(self.of):
            return self
        return Across(self.numbers, self.positions, self.of.index_select(0, rows.origin))

    def joined(self, others: Sequence[Across]) -> Across:
        """With the rows of others, and those sentences that some row looks at."""
        numbers, positions, of, count = [], [], [], 0
        for part in (self, *others):
            used, own = torch.unique(part.of, return_inverse=True)
            numbers.append(part.numbers[:, used].transpose(0, 1))
            positions.append(part.positions[used])
            of.append(own.int() + count)
            count += len(used)
        together = laid_under(numbers, axis=2, fill=0.0).transpose(0, 1).contiguous()
        return Across(together, laid_under(positions, axis=1, fill=-1), torch.cat(of))

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
        whole: a text was read of which all tokens saw all others; nothing may follow it.
    """

    across: Mapping[str, Across]
    pages: Pages | None = None
    table: Int32[Tensor, "B K 2"] | None = None
    whole: bool = False

    @property
    def read(self) -> int:
        """Columns of the table."""
        return 0 if self.table is None else self.table.size(1)

    def rearrange(self, rows: Rows) -> NativeState:
        """With other rows."""
        across = {name: each.rearrange(rows) for name, each in self.across.items()}
        table = None if self.table is None else self.table.index_select(0, rows.origin)
        return NativeState(across, self.pages, table, self.whole)

    def joined(self, others: Sequence[NativeState]) -> NativeState:
        """With the rows of others: in the pages of this one, where these have room for them, or in new ones that hold
        what all have read and no more.
        """
        across = {name: each.joined([part.across[name] for part in others]) for name, each in self.across.items()}
        if all(part.table is None for part in (self, *others)):
            return replace(self, across=across)
        found = self._beside(others)
        pages, table = self._together(others) if found is None else found
        return NativeState(across, pages, table)

    def _beside(self, others: Sequence[NativeState]) -> tuple[Pages, Int32[Tensor, "B K 2"]] | None:
        """Others as guests in these pages, in the newest columns, where they have left nothing yet."""
        if self.pages is None or self.table is None or any(part.pages is None for part in others):
            return None
        pages, read = self.pages, self.read
        longest = int((self.table[..., 0] >= 0).sum(1).amax())
        guests = [part.gathered() for part in others]
        columns = max(positions.size(1) for _, positions in guests)
        if columns > read or read > 2 * longest + _SPARSE:
            return None
        count = sum(len(positions) for _, positions in guests)
        first = pages.taken.claim(slice(read - columns, read), count, size=pages.numbers.size(1))
        if first is None:
            return None
        tables = [self.table]
        for numbers, positions in guests:
            rows, size = positions.shape
            pages.numbers[:, first : first + rows, read - size : read] = numbers.transpose(0, 1)
            table = torch.full((rows, read, 2), -1, dtype=torch.int32)
            own = torch.arange(first, first + rows, dtype=torch.int32).unsqueeze(1)
            table[:, read - size :] = torch.stack((torch.where(positions < 0, -1, own), positions), 2)
            tables.append(table)
            first += rows
        return pages, torch.cat(tables)

    def _together(self, others: Sequence[NativeState]) -> tuple[Pages, Int32[Tensor, "B K 2"]]:
        """New pages for all."""
        parts = (self, *others)
        gathered = [part.gathered() for part in parts if part.pages is not None]
        numbers = laid_under([each for each, _ in gathered], axis=2, fill=0.0)
        positions = laid_under([each for _, each in gathered], axis=1, fill=-1)
        rows = torch.arange(len(positions), dtype=torch.int32).unsqueeze(1)
        table = torch.stack((torch.where(positions < 0, -1, rows), positions), 2)
        size = table.size(1)
        tables, at = [], 0
        for part in parts:
            count = 0 if part.table is None else len(part.table)
            tables.append(table[at : at + count] if count else part.nothing(size))
            at += count
        return Pages.holding(numbers), torch.cat(tables)

    def nothing(self, columns: int) -> Int32[Tensor, "B K 2"]:
        """The table of rows that have read nothing."""
        return torch.full((len(next(iter(self.across.values())).of), columns, 2), -1, dtype=torch.int32)

    def gathered(self) -> tuple[Float[Tensor, "B depth K 2 width"], Int32[Tensor, "B K"]]:
        """The keys and values of each row, side by side in the order in which they were read, and their positions."""
        assert self.pages is not None and self.table is not None
        slots, positions = self.table.long().unbind(2)
        order = (slots < 0).byte().sort(dim=1, stable=True).indices[:, : int((slots >= 0).sum(1).amax())]
        slots, positions = slots.gather(1, order), positions.gather(1, order)
        numbers = self.pages.numbers[:, slots.clamp(min=0), order].transpose(0, 1)
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
