"""Decoding state of a stack whose keys are in pages, and the tensors through which a step reads and writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.attention.kv_cache import KVCache
from heedful.attention.multihead import MultiHeadAttention
from heedful.engines.graphs.pages import PageTable
from heedful.tensors import RowSelection


@dataclass(frozen=True)
class PagedState:
    """Decoding state: the pages of the memories and of the tokens read. Rows share pages; none is copied when rows are
    selected, reordered or joined.

    Attributes:
        memories: pages of each memory by name.
        past: pages of the tokens read; None before the first ones.
    """

    memories: Mapping[str, PageTable]
    past: PageTable | None = None

    def reorder(self, rows: RowSelection) -> PagedState:
        """Return the state whose rows are the selected rows of this one. It waits for the device."""
        origin = rows.origin.cpu().numpy()
        stays = rows.groups is None and not rows.ignores_groups  # rows of a group have the same memories
        memories = {
            name: table if stays and len(origin) == len(table.lengths) else table.select_rows(origin)
            for name, table in self.memories.items()
        }
        return PagedState(memories, None if self.past is None else self.past.select_rows(origin))

    def concat(self, others: Sequence[PagedState]) -> PagedState:
        """Concatenate the rows of this state and of `others`."""
        memories = {
            name: table.concat([other.memories[name] for other in others]) for name, table in self.memories.items()
        }
        pasts = [state.past for state in (self, *others)]
        pool = next((past.pool for past in pasts if past is not None), None)
        if pool is None:
            return replace(self, memories=memories)
        assert self.memories or None not in pasts, "a state without a memory has no rows before its first token"
        first, *rest = (
            PageTable.create_empty(pool, state.num_memory_rows) if state.past is None else state.past
            for state in (self, *others)
        )
        return PagedState(memories, first.concat(rest))

    @property
    def num_memory_rows(self) -> int:
        """Number of rows of the memories."""
        return len(next(iter(self.memories.values())).lengths)


@dataclass(frozen=True)
class HeadColumns:
    """The columns of a page that hold the keys and values of one attention.

    Attributes:
        start: the first column.
        heads: number of heads of keys and values.
        key_width: width of a key.
        value_width: width of a value.
    """

    start: int
    heads: int
    key_width: int
    value_width: int

    @classmethod
    def measure(cls, attention: MultiHeadAttention, start: int) -> tuple[HeadColumns, torch.dtype]:
        """Return the columns from `start` on that an attention needs, and the type of its numbers."""
        weight = attention.query.weight
        x = torch.zeros(1, 1, attention.key_value.in_features, dtype=weight.dtype, device=weight.device)
        cache = attention.project_memory(x, x, torch.zeros(1, 1, dtype=torch.long, device=weight.device))
        return cls(start, cache.key.size(1), cache.key.size(3), cache.value.size(3)), cache.key.dtype

    @property
    def stop(self) -> int:
        """The column after the last one."""
        return self.start + self.heads * (self.key_width + self.value_width)

    def split(self, numbers: Float[Tensor, "G K columns"]) -> KVCache:
        """Split the numbers of these columns into the keys and values of all heads."""
        keys = self.heads * self.key_width
        key, value = (
            part.view(*part.shape[:2], self.heads, width).transpose(1, 2)
            for part, width in ((numbers[..., :keys], self.key_width), (numbers[..., keys:], self.value_width))
        )
        return KVCache(key, value)

    def join(self, cache: KVCache) -> Float[Tensor, "G K columns"]:
        """Return keys and values as numbers of these columns."""
        return torch.cat([part.transpose(1, 2).flatten(2) for part in (cache.key, cache.value)], 2)


@dataclass(frozen=True)
class PagedRows:
    """The tensors of a pool, and the places of some rows in it.

    Attributes:
        storage: keys and values of all pages.
        positions: position of each token of all pages.
        table: pages of each row.
        lengths: number of tokens of each row.
    """

    storage: Float[Tensor, "P S columns"]
    positions: Int[Tensor, "P S"]
    table: Int[Tensor, "R n"]
    lengths: Int[Tensor, " R"]

    def gather_positions(self) -> Int[Tensor, "R K"]:
        """Return the position of each key of each row; -1 behind the last one."""
        positions = self.positions.index_select(0, self.table.flatten()).view(len(self.table), self._num_keys)
        columns = torch.arange(positions.size(1), device=positions.device)
        return torch.where(columns < self.lengths.unsqueeze(1), positions, -1)

    def gather_keys(self, columns: HeadColumns) -> KVCache:
        """Return the keys and values of each row for one attention; arbitrary behind the last ones."""
        numbers = self.storage[..., columns.start : columns.stop].index_select(0, self.table.flatten())
        return columns.split(numbers.view(len(self.table), self._num_keys, numbers.size(2)))

    @property
    def _num_keys(self) -> int:
        return self.table.size(1) * self.positions.size(1)

    def write_positions(self, slots: Int[Tensor, "R T"], positions: Int[Tensor, "R T"]) -> None:
        """Write the positions of tokens to their slots."""
        self.positions.view(-1).index_copy_(0, slots.flatten(), positions.flatten())

    def write_keys(self, slots: Int[Tensor, "R T"], cache: KVCache, columns: HeadColumns) -> None:
        """Write keys and values of tokens to their slots, for one attention."""
        numbers = self.storage.flatten(0, 1)[:, columns.start : columns.stop]
        numbers.index_copy_(0, slots.flatten(), columns.join(cache).flatten(0, 1))


@dataclass(frozen=True, kw_only=True)
class PagedCache(KVCache):
    """The cache of one attention in pages, each of which is a group; it grows by writing to given slots.

    Attributes:
        rows: the rows that read tokens.
        slots: where their tokens are written.
        columns: those of the attention.
    """

    rows: PagedRows = field(repr=False)
    slots: Int[Tensor, "R T"]
    columns: HeadColumns

    @classmethod
    def create(cls, rows: PagedRows, slots: Int[Tensor, "R T"], columns: HeadColumns) -> PagedCache:
        """Create the cache of an attention."""
        pages = columns.split(rows.storage[..., columns.start : columns.stop])
        return cls(pages.key, pages.value, rows=rows, slots=slots, columns=columns)

    def extend(self, newer: KVCache) -> KVCache:
        """Write newer keys and values to the slots; return those of the rows."""
        self.rows.write_keys(self.slots, newer, self.columns)
        return self.rows.gather_keys(self.columns)
