"""What a stack in native code remembers: keys and values that stay where they were written, and where that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int32
from torch import Tensor

from heedful.attention.multihead import KeyValues
from heedful.attention.sight import Slots
from heedful.attention.space import Space, more_than
from heedful.blocks.transformer import LayerState, StackState
from heedful.values import Rows, laid_under


@dataclass(frozen=True)
class Pages:
    """The keys and values that tokens have left in all layers; whoever comes first may write into free columns."""

    numbers: Float[Tensor, "depth R K 2 width"]
    space: Space

    def behind(self, read: int, *, rows: int, newest: int) -> Pages:
        """Pages with the same columns up to `read` and room for the newest ones of so many rows: these, or a copy."""
        end = read + newest
        if rows <= self.numbers.size(1) and self.space.claim(read, end):
            return self
        depth, before, _, pair, width = self.numbers.shape
        size = more_than(end, newest)
        numbers = self.numbers.new_empty(depth, max(rows, before), size, pair, width)
        numbers[:, :before, :read].copy_(self.numbers[:, :, :read])
        return Pages(numbers, Space(end, size))


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
        """With the rows of others, in pages of their own that hold what they have read and no more."""
        parts = (self, *others)
        across = {name: each.joined([part.across[name] for part in others]) for name, each in self.across.items()}
        if all(part.table is None for part in parts):
            return replace(self, across=across)
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
        pages = Pages(numbers.transpose(0, 1).contiguous(), Space(size, size))
        return NativeState(across, pages, torch.cat(tables))

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
