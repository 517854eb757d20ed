"""Decoding state of a native stack: keys and values stay where they were written, and a table says where."""

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

from heedful.attention.kv_cache import KVCache, SharedCapacity, grow_capacity
from heedful.attention.mask import CacheLayout
from heedful.blocks.transformer import LayerState, StackState
from heedful.tensors import RowSelection, pad_and_concat

_SPARE_ROWS: Final = 16
"""Minimum number of spare rows in new pages."""
_GROWTH_FACTOR: Final = 4
"""Growth factor of the columns of pages in continuous batching."""
_SLOT_MULTIPLE: Final = 16
"""The number of slots of joined memories is rounded up to a multiple of this, so that slightly longer ones fit too."""


@final
class UsedRows:
    """Thread-safe count of the used rows in each column of shared pages.

    Args:
        rows: used rows of each column.
    """

    def __init__(self, rows: Int[np.ndarray, " K"]) -> None:
        self._rows = rows
        self._lock = Lock()

    def get_counts(self, columns: slice) -> Int[np.ndarray, " k"]:
        """Return the number of used rows of these columns."""
        return self._rows[columns].copy()

    def set_counts(self, columns: slice, rows: int) -> None:
        """Mark the first `rows` rows of columns that only the caller may write into."""
        with self._lock:
            self._rows[columns] = rows

    def claim_rows(self, columns: slice, rows: int, *, size: int) -> int | None:
        """Claim `rows` free rows in these columns, which have `size` rows, and return the first; None if there are not
        enough.
        """
        with self._lock:
            first = int(self._rows[columns].max(initial=0))
            if first + rows > size:
                return None
            self._rows[columns] = first + rows
            return first


@dataclass(frozen=True)
class KVPages:
    """Shared storage of keys and values of all layers; the first claimant may write into free columns, or into free
    rows of used ones.
    """

    numbers: Float[Tensor, "depth R K 2 width"]
    capacity: SharedCapacity
    used_rows: UsedRows

    @classmethod
    def empty(cls, depth: int, rows: int, width: int) -> KVPages:
        """Create pages without columns."""
        return cls(torch.empty(depth, rows, 0, 2, width), SharedCapacity(0, 0), UsedRows(np.zeros(0, np.int64)))

    @classmethod
    def from_numbers(cls, numbers: Float[Tensor, "B depth K 2 width"]) -> KVPages:
        """Create pages with these keys and values of all rows and layers, and room for more rows and columns."""
        rows, depth, size, pair, width = numbers.shape
        columns = grow_capacity(size, 1)
        storage = numbers.new_empty(depth, rows + max(_SPARE_ROWS, rows // 4), columns, pair, width)
        storage[:, :rows, :size] = numbers.transpose(0, 1)
        used_counts = np.zeros(columns, np.int64)
        used_counts[:size] = rows
        return cls(storage, SharedCapacity(size, columns), UsedRows(used_counts))

    def reserve_columns(self, columns: slice, *, rows: int, new_columns: int) -> tuple[KVPages, int]:
        """Return pages with these columns and room for `new_columns` behind them in the first `rows` rows, and the
        number of the first column: these pages if they have the room, or else copies.
        """
        first_new, end = columns.stop, columns.stop + new_columns
        if rows <= self.numbers.size(1) and self.capacity.claim(first_new, end):
            self.used_rows.set_counts(slice(first_new, end), rows)
            return self, columns.start
        depth, old_rows, _, pair, width = self.numbers.shape
        counts, num_columns = self.used_rows.get_counts(columns), first_new - columns.start
        size = (
            grow_capacity(num_columns + new_columns, new_columns)
            if columns.start == 0
            else _GROWTH_FACTOR * (num_columns + new_columns)
        )
        numbers, max_rows = self.numbers.new_empty(depth, max(rows, old_rows), size, pair, width), counts.max(initial=0)
        numbers[:, :max_rows, :num_columns].copy_(self.numbers[:, :max_rows, columns])
        used_counts = np.zeros(size, np.int64)
        used_counts[:num_columns], used_counts[num_columns : num_columns + new_columns] = counts, rows
        return KVPages(numbers, SharedCapacity(num_columns + new_columns, size), UsedRows(used_counts)), 0


@dataclass(frozen=True)
class CrossMemory:
    """A memory projected for all layers, stored once for each sentence.

    Attributes:
        numbers: keys and values; there may be room for further sentences.
        positions: -1 where a slot is empty.
        sentence_indices: the sentence that each row of the state attends to.
        num_sentences: number of sentences when this state was made; others may have been appended since.
        capacity: capacity shared with other states.
    """

    numbers: Float[Tensor, "depth S slots 2 width"]
    positions: Int32[Tensor, "S slots"]
    sentence_indices: Int32[Tensor, " B"]
    num_sentences: int
    capacity: SharedCapacity

    @classmethod
    def from_projection(
        cls, numbers: Float[Tensor, "depth B slots 2 width"], positions: Int32[Tensor, "B slots"]
    ) -> CrossMemory:
        """Create a memory with one row per sentence and no room for others; `numbers` are the projected keys and values
        of all layers, `positions` those of the slots.
        """
        count = len(positions)
        return cls(numbers, positions, torch.arange(count, dtype=torch.int32), count, SharedCapacity(count, count))

    @cached_property
    def native_addresses(self) -> tuple[int, ...]:
        """Addresses and sizes for native code."""
        return (
            *(tensor.data_ptr() for tensor in (self.numbers, self.positions, self.sentence_indices)),
            *self.positions.shape,
        )

    def reorder(self, rows: RowSelection) -> CrossMemory:
        """Return the memory for the selected rows; sentences stay where they are, and rows within one sentence need no
        change.
        """
        if rows.groups is None and not rows.ignores_groups and len(rows.origin) == len(self.sentence_indices):
            return self
        return replace(self, sentence_indices=self.sentence_indices.index_select(0, rows.origin))

    def concat(self, others: Sequence[CrossMemory]) -> CrossMemory:
        """Append the sentences of other memories if there is room, else copy all used sentences into a new one."""
        slots = max(memory.positions.size(1) for memory in others)
        used_sentences = [torch.unique(memory.sentence_indices, return_inverse=True) for memory in others]
        start, num_new = self.num_sentences, sum(len(sentences) for sentences, _ in used_sentences)
        result = self
        if slots > self.positions.size(1) or not self.capacity.claim(start, start + num_new):
            result = self._reallocate(num_new, slots=slots)
            start = result.num_sentences - num_new
        indices = [result.sentence_indices]
        for memory, (sentences, rows) in zip(others, used_sentences, strict=True):
            end, size = start + len(sentences), memory.positions.size(1)
            result.numbers[:, start:end, :size] = memory.numbers[:, sentences]
            result.positions[start:end, :size] = memory.positions[sentences]
            indices.append(rows.int() + start)
            start = end
        return replace(result, sentence_indices=torch.cat(indices), num_sentences=start)

    def _reallocate(self, count: int, *, slots: int) -> CrossMemory:
        """Copy the used sentences into a new memory with room for `count` further sentences of at most `slots` slots,
        and for as many sentences again.

        Args:
            count: number of sentences to append.
            slots: slots of the longest of them.
        """
        used_sentences, indices = torch.unique(self.sentence_indices, return_inverse=True)
        nonempty = (self.positions[used_sentences] >= 0).any(0).nonzero()
        num_slots = int(nonempty[-1]) + 1 if len(nonempty) else 0
        size, sentences = -(-max(slots, num_slots) // _SLOT_MULTIPLE) * _SLOT_MULTIPLE, len(used_sentences) + count
        depth, _, _, pair, width = self.numbers.shape
        numbers = self.numbers.new_empty(depth, 2 * sentences, size, pair, width)
        numbers[:, : len(used_sentences), :num_slots] = self.numbers[:, used_sentences, :num_slots]
        positions = self.positions.new_full((2 * sentences, size), -1)
        positions[: len(used_sentences), :num_slots] = self.positions[used_sentences, :num_slots]
        return CrossMemory(numbers, positions, indices.int(), sentences, SharedCapacity(sentences, 2 * sentences))

    def to_caches(self, heads: int) -> tuple[CacheLayout, list[KVCache]]:
        """Return the layout of the keys, and a cache for each layer, split into this number of heads, with one entry
        per row of the state.
        """
        numbers = self.numbers[:, self.sentence_indices]
        return CacheLayout(self.positions[self.sentence_indices].long()), [
            _split_heads(layer, heads) for layer in numbers
        ]


@dataclass(frozen=True)
class NativeState:
    """Decoding state of a native stack. Reordering rows reorders the table; keys and values stay in their pages.

    Attributes:
        memories: each memory by name.
        pages: keys and values of the tokens read; None if nothing was read.
        table: row of the pages (-1 for none) and position, for each row and column.
        first_column: the column of the pages that is the table's first.
        is_closed: a complete text was read with bidirectional attention; nothing may follow it.
    """

    memories: Mapping[str, CrossMemory]
    pages: KVPages | None = None
    table: Int32[Tensor, "B K 2"] | None = None
    first_column: int = 0
    is_closed: bool = False

    @property
    def num_columns(self) -> int:
        """Number of columns of the table."""
        return 0 if self.table is None else self.table.size(1)

    @property
    def page_columns(self) -> slice:
        """Columns of the pages that the table covers."""
        return slice(self.first_column, self.first_column + self.num_columns)

    def reorder(self, rows: RowSelection) -> NativeState:
        """Return the state whose rows are the selected rows of this one."""
        memories = {name: memory.reorder(rows) for name, memory in self.memories.items()}
        table = None if self.table is None else self.table.index_select(0, rows.origin)
        return replace(self, memories=memories, table=table)

    def concat(self, others: Sequence[NativeState]) -> NativeState:
        """Concatenate the rows of this state and of `others`: in the pages of this one if there is room, else in new
        pages.
        """
        memories = {
            name: memory.concat([state.memories[name] for state in others]) for name, memory in self.memories.items()
        }
        if all(state.table is None for state in (self, *others)):
            return replace(self, memories=memories)
        gathered_rows = [state.gather_rows() for state in others if state.table is not None]
        joined_state = self._append_rows(gathered_rows) if len(gathered_rows) == len(others) else None
        return replace(self._concat_into_new_pages(others) if joined_state is None else joined_state, memories=memories)

    def _append_rows(self, gathered_rows: Sequence[tuple[Tensor, Tensor]]) -> NativeState | None:
        """Append gathered rows (keys and values, and positions) to free rows in the newest columns of these pages; None
        if there is no room.

        Columns before the first key of all rows are dropped.
        """
        if self.pages is None or self.table is None:
            return None
        used_columns = (self.table[..., 0] >= 0).any(0).nonzero()
        columns = max(positions.size(1) for _, positions in gathered_rows)
        if columns > self.num_columns or not len(used_columns):
            return None
        table = self.table[:, min(int(used_columns[0]), self.num_columns - columns) :]
        num_columns, end = table.size(1), self.page_columns.stop
        count, storage = sum(len(positions) for _, positions in gathered_rows), self.pages.numbers
        first = self.pages.used_rows.claim_rows(slice(end - columns, end), count, size=storage.size(1))
        if first is None:
            return None
        tables = [table]
        for numbers, positions in gathered_rows:
            rows, size = positions.shape
            storage[:, first : first + rows, end - size : end] = numbers.transpose(0, 1)
            table = torch.full((rows, num_columns, 2), -1, dtype=torch.int32)
            row_indices = torch.arange(first, first + rows, dtype=torch.int32).unsqueeze(1)
            table[:, num_columns - size :] = torch.stack((torch.where(positions < 0, -1, row_indices), positions), 2)
            tables.append(table)
            first += rows
        return replace(self, table=torch.cat(tables), first_column=end - num_columns)

    def _concat_into_new_pages(self, others: Sequence[NativeState]) -> NativeState:
        """Concatenate the rows of this state and of `others` in new pages, aligned at the last column; memories stay
        those of this state.
        """
        states = (self, *others)
        gathered = [state.gather_rows() for state in states if state.table is not None]
        numbers = pad_and_concat([tensor for tensor, _ in gathered], axis=2, fill=0.0, pad_left=True)
        positions = pad_and_concat([tensor for _, tensor in gathered], axis=1, fill=-1, pad_left=True)
        rows = torch.arange(len(positions), dtype=torch.int32).unsqueeze(1)
        table = torch.stack((torch.where(positions < 0, -1, rows), positions), 2)
        size = table.size(1)
        tables, offset = [], 0
        for state in states:
            count = 0 if state.table is None else len(state.table)
            tables.append(table[offset : offset + count] if count else state.empty_table(size))
            offset += count
        return replace(self, pages=KVPages.from_numbers(numbers), table=torch.cat(tables), first_column=0)

    def empty_table(self, columns: int) -> Int32[Tensor, "B K 2"]:
        """Return the table of rows that have read nothing."""
        return torch.full((len(next(iter(self.memories.values())).sentence_indices), columns, 2), -1, dtype=torch.int32)

    def gather_rows(self) -> tuple[Float[Tensor, "B depth K 2 width"], Int32[Tensor, "B K"]]:
        """Return the keys and values of each row in reading order, aligned at the last column, and their positions."""
        assert self.pages is not None and self.table is not None
        slots, positions = self.table.long().unbind(2)
        max_columns = int((slots >= 0).sum(1).amax())
        order = (slots >= 0).byte().sort(dim=1, stable=True).indices[:, self.num_columns - max_columns :]
        slots, positions = slots.gather(1, order), positions.gather(1, order)
        numbers = self.pages.numbers[:, slots.clamp(min=0), order + self.first_column].transpose(0, 1)
        numbers = numbers.masked_fill((slots < 0)[:, None, :, None, None], 0.0)
        return numbers, torch.where(slots < 0, -1, positions).int()

    def to_stack_state(self, *, depth: int, heads: int) -> StackState:
        """Convert to the state of a stack of modules with `depth` layers and this number of heads."""
        memories = {name: memory.to_caches(heads) for name, memory in self.memories.items()}
        past, layers = None, list[KVCache | None]([None] * depth)
        if self.pages is not None:
            numbers, positions = self.gather_rows()
            past, layers = (
                CacheLayout(positions.long()),
                [_split_heads(layer, heads) for layer in numbers.transpose(0, 1)],
            )
        states = (
            LayerState(layers[number], {name: memory[1][number] for name, memory in memories.items()})
            for number in range(depth)
        )
        return StackState(past, {name: slots for name, (slots, _) in memories.items()}, tuple(states))


def _split_heads(layer: Float[Tensor, "B K 2 width"], heads: int) -> KVCache:
    rows, count, _, width = layer.shape
    key, value = layer.view(rows, count, 2, heads, width // heads).permute(2, 0, 3, 1, 4)
    return KVCache(key, value)
