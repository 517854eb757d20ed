"""Attention masks and cache layouts: computed once per call of a stack and used by all its layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.attention import kernels
from heedful.attention.mask_functions import MaskFunction, SlidingWindow
from heedful.tensors import RowSelection, pad_and_concat, require_same_width


@dataclass(frozen=True)
class CacheLayout:
    """Positions of the keys in a cache or memory, and which rows may use each key.

    Rows of a state come in groups of `width` that share their keys (see `heedful.tensors.RowSelection`): the memory of
    a sentence is stored once for all its beams, and keys that a beam wrote stay where they are. `key_mask` records
    which of the group's keys each row descends from; reordering beams reorders this table, not the keys.

    Attributes:
        positions: position of each key, -1 where there is none, [G, K].
        key_mask: which keys each row may use, [B, K] with B = G * width; None if all rows may use all keys.
        width: rows in a group.
    """

    positions: Int[Tensor, "G K"]
    key_mask: Bool[Tensor, "B K"] | None = None
    width: int = 1

    def extend(self, positions: Int[Tensor, "G wQ"]) -> CacheLayout:
        """Append the keys that each row has just written at `positions` (rows of a group side by side); only that row
        may use them.
        """
        all_positions = torch.cat((self.positions, positions), 1) if self.positions.size(1) else positions
        if self.width == 1:
            return CacheLayout(all_positions)
        groups, new_keys = positions.shape
        new_mask = torch.eye(self.width, dtype=torch.bool, device=positions.device)
        new_mask = new_mask.repeat_interleave(new_keys // self.width, 1).repeat(groups, 1)
        return CacheLayout(all_positions, torch.cat((self.dense_key_mask(), new_mask), 1), self.width)

    def reorder(self, rows: RowSelection) -> CacheLayout:
        """Return the layout for the selected rows; for rows picked regardless of groups, keys that the row may not use
        become absent.
        """
        groups = rows.source_groups(self.width)
        positions = self.positions if groups is None else self.positions.index_select(0, groups)
        owned = None if self.key_mask is None else self.key_mask.index_select(0, rows.origin)
        if rows.ignores_groups and owned is not None:
            return CacheLayout(torch.where(owned, positions, -1))
        return CacheLayout(positions, owned, rows.width)

    def needed_columns(self) -> Int[Tensor, "G K_needed"] | None:
        """Return the columns of keys that some row of each group may use, in order; None if a group needs all columns.

        Groups that need fewer columns are padded on the left with unneeded ones. Keys of beams without descendants are
        not needed: of T tokens in each of w beams, little more than T remain.
        """
        groups, keys = self.positions.shape
        if not groups or not keys:
            return None
        is_used = self._find_used_keys()
        max_used = max(int(is_used.sum(1).amax()), 1)
        if max_used == keys:
            return None
        return is_used.byte().sort(dim=1, stable=True).indices[:, keys - max_used :]

    def select_columns(self, columns: Int[Tensor, "G K_needed"]) -> CacheLayout:
        """Keep only these columns, which `needed_columns` returned."""
        positions = torch.where(self._find_used_keys(), self.positions, -1).gather(1, columns)
        if self.key_mask is None:
            return CacheLayout(positions, None, self.width)
        return CacheLayout(positions, self.key_mask.gather(1, columns.repeat_interleave(self.width, 0)), self.width)

    def _find_used_keys(self) -> Bool[Tensor, "G K"]:
        """Mark the keys that some row of the group may use."""
        exists = self.positions >= 0
        if self.key_mask is None:
            return exists
        return exists & self.key_mask.view(len(exists), self.width, -1).any(1)

    @classmethod
    def concat_groups(cls, layouts: Sequence[CacheLayout], *, pad_left: bool) -> CacheLayout:
        """Concatenate the groups of several layouts; shorter ones are padded on the left if `pad_left`, otherwise on
        the right.
        """
        width = require_same_width(part.width for part in layouts)
        positions = pad_and_concat([part.positions for part in layouts], axis=1, fill=-1, pad_left=pad_left)
        if all(part.key_mask is None for part in layouts):
            return cls(positions, None, width)
        return cls(
            positions,
            pad_and_concat([part.dense_key_mask() for part in layouts], axis=1, fill=False, pad_left=pad_left),
            width,
        )

    def first_columns(self, count: int) -> Int[Tensor, "G first"]:
        """Return the indices of the first `count` columns of each group."""
        return torch.arange(count, device=self.positions.device).expand(len(self.positions), -1)

    def truncate(self, count: int) -> CacheLayout:
        """Keep only the first columns."""
        owned = None if self.key_mask is None else self.key_mask[:, :count]
        return CacheLayout(self.positions[:, :count], owned, self.width)

    def dense_key_mask(self) -> Bool[Tensor, "B K"]:
        """Return the table of usable keys, even where all rows may use all keys."""
        if self.key_mask is not None:
            return self.key_mask
        groups, keys = self.positions.shape
        return torch.ones(groups * self.width, keys, dtype=torch.bool, device=self.positions.device)

    def build_mask(self, positions: Int[Tensor, "G wQ"], mask_function: MaskFunction) -> AttentionMask:
        """Build the mask of queries at `positions` (rows of a group side by side) over these keys."""
        if isinstance(mask_function, SlidingWindow) and self.width == 1:
            band = BandedMask.from_positions(mask_function, positions, key_positions=self.positions)
            if band is not None:
                return AttentionMask(positions, self.positions, None, None, None, band)
        query_positions, key_positions = (
            (positions[:1], self.positions[:1]) if self._rows_share_memory(positions) else (positions, self.positions)
        )
        visible = mask_function(query_positions.unsqueeze(2), key_positions.unsqueeze(1))
        if self.key_mask is not None:
            groups, keys = self.positions.shape
            owned = self.key_mask.view(groups, self.width, 1, keys)
            visible = visible.view(groups, self.width, -1, keys).logical_and(owned).view_as(visible)
        return AttentionMask.from_visible(positions, key_positions=self.positions, visible=visible)

    def _rows_share_memory(self, positions: Int[Tensor, "G Q"]) -> bool:
        """Return whether all rows are known to have the same mask, because they share one row in memory."""
        return self.key_mask is None and positions.stride(0) == 0 and self.positions.stride(0) == 0


@dataclass(frozen=True)
class AttentionMask:
    """Which keys each query may see.

    Attributes:
        positions: positions of the queries, [G, Q].
        key_positions: positions of the keys, [G, K].
        visible: True where a query sees a key, broadcast over heads, [G, 1, Q, K]; None if nothing is hidden.
        hidden: the inverse, computed once for all layers.
        fully_masked: queries that see nothing at all, [G, 1, Q, 1]; None if there are none.
        band: block-sparse form of a narrow window; the three fields above are then None.
    """

    positions: Int[Tensor, "G Q"]
    key_positions: Int[Tensor, "G K"]
    visible: Bool[Tensor, "G 1 Q K"] | None
    hidden: Bool[Tensor, "G 1 Q K"] | None
    fully_masked: Bool[Tensor, "G 1 Q 1"] | None
    band: BandedMask | None = None

    def to_dense(self) -> AttentionMask:
        """Return the same mask over all keys, without a band."""
        if self.band is None:
            return self
        visible = self.band.window(self.positions.unsqueeze(2), self.key_positions.unsqueeze(1))
        return AttentionMask.from_visible(self.positions, key_positions=self.key_positions, visible=visible)

    def to_canonical_form(self) -> AttentionMask:
        """Return the same mask in one fixed form, so that PyTorch does not compile again for other forms.

        Without a band, no tensor is None; with a band, this holds for its block mask. Each tensor is a contiguous copy.
        """
        positions, key_positions = _copy_contiguously(self.positions), _copy_contiguously(self.key_positions)
        if self.band is not None:
            return AttentionMask(positions, key_positions, None, None, None, self.band.to_canonical_form())
        if self.visible is None:
            (rows, queries), keys = positions.shape, key_positions.size(1)
            visible = torch.ones(rows, 1, queries, keys, dtype=torch.bool, device=positions.device)
        else:
            visible = _copy_contiguously(self.visible)
        return AttentionMask(positions, key_positions, visible, ~visible, ~visible.any(-1, keepdim=True))

    @classmethod
    def from_visible(
        cls,
        positions: Int[Tensor, "G Q"],
        *,
        key_positions: Int[Tensor, "G K"],
        visible: Bool[Tensor, "#G Q K"],
    ) -> AttentionMask:
        """Create the mask of queries at `positions` over keys at `key_positions`; `visible` says which keys each query
        sees, per row or shared by all rows.

        On the CPU the values are inspected, and the tensor is dropped if it hides nothing. On other devices that would
        wait for the device, and while tracing there are no values.
        """
        mask = visible.unsqueeze(1)
        can_inspect = mask.device.type == "cpu" and not kernels.is_tracing()
        if can_inspect and bool(mask.all()):
            return cls(positions, key_positions, None, None, None)
        fully_masked = ~mask.any(-1, keepdim=True)
        none_masked = can_inspect and not bool(fully_masked.any())
        visible_rows, hidden, fully_masked = (
            part.expand(positions.size(0), -1, -1, -1) for part in (mask, ~mask, fully_masked)
        )
        return cls(positions, key_positions, visible_rows, hidden, None if none_masked else fully_masked)


@dataclass(frozen=True)
class BandedMask:
    """A sliding window over consecutive tokens, cut into N blocks of S queries and the W keys that they may see.

    Blocks are separate rows, so ordinary attention applies to them, and the cost of restricted self-attention depends
    on the width of its window, not on the length of the text: O(n r d) (Vaswani et al. 2017, table 1).

    Attributes:
        window: the mask function.
        num_queries: Q, the number of queries, which are the last tokens.
        query_columns: column of the query at each place of each block, [N S]; the last block repeats the last query.
        key_columns: column of the key at each place of each block, [N W]; arbitrary beyond the ends.
        block_mask: mask inside each block.
    """

    window: SlidingWindow
    num_queries: int
    query_columns: Int[Tensor, " NS"]
    key_columns: Int[Tensor, " NW"]
    block_mask: AttentionMask

    @classmethod
    def from_positions(
        cls, window: SlidingWindow, positions: Int[Tensor, "G Q"], *, key_positions: Int[Tensor, "G K"]
    ) -> BandedMask | None:
        """Create the band in which queries at `positions` see the keys of a window; None if it is not faster or
        positions are not consecutive columns (up to a shift per row).

        Positions are inspected on every device: the mask that this saves costs more than the wait.
        """
        queries, keys = positions.size(1), key_positions.size(1)
        if not kernels.prefer_band(queries, keys, window=window):
            return None
        if not _positions_match_columns(positions, key_positions):
            return None
        size, width = kernels.choose_block_size(queries, window=window)
        starts = torch.arange(0, queries, size, device=positions.device).unsqueeze(1)
        offsets = torch.arange(width, device=positions.device)
        query_columns = (starts + offsets[:size]).clamp(max=queries - 1).flatten()
        key_columns = (starts + (keys - queries - window.before) + offsets).flatten()
        exists = (key_columns >= 0) & (key_columns < keys)
        key_columns = key_columns.clamp(0, keys - 1)
        query_positions = positions[:, query_columns].view(-1, size)
        block_key_positions = torch.where(exists, key_positions[:, key_columns], -1).view(-1, width)
        visible = window(query_positions.unsqueeze(2), block_key_positions.unsqueeze(1))
        return cls(
            window,
            queries,
            query_columns,
            key_columns,
            AttentionMask.from_visible(query_positions, key_positions=block_key_positions, visible=visible),
        )

    def to_canonical_form(self) -> BandedMask:
        """Return the same band in the form that compiled code needs; see `AttentionMask.to_canonical_form`."""
        return replace(self, block_mask=self.block_mask.to_canonical_form())

    def split_queries(self, heads: Float[Tensor, "G H Q d"]) -> Float[Tensor, "GN H S d"]:
        """Gather the queries of each block."""
        return _gather_blocks(heads, self.query_columns, size=self.block_mask.positions.size(1))

    def split_keys(self, heads: Float[Tensor, "G H K d"]) -> Float[Tensor, "GN H W d"]:
        """Gather the keys or values that the queries of each block may see."""
        return _gather_blocks(heads, self.key_columns, size=self.block_mask.key_positions.size(1))

    def merge_blocks(self, contexts: Float[Tensor, "GN H S d_v"]) -> Float[Tensor, "G H Q d_v"]:
        """Merge the contexts of all blocks into the original order of queries."""
        heads, width = contexts.size(1), contexts.size(3)
        rows = contexts.transpose(1, 2).reshape(-1, self.query_columns.numel(), heads, width)
        return rows[:, : self.num_queries].transpose(1, 2)


def _copy_contiguously(tensor: Tensor) -> Tensor:
    """Return a copy whose memory is in the order of its axes."""
    return tensor.clone(memory_format=torch.contiguous_format)


def _gather_blocks(
    heads: Float[Tensor, "G H T d"], columns: Int[Tensor, " Nsize"], *, size: int
) -> Float[Tensor, "GN H size d"]:
    """Gather columns of all heads into blocks of `size` columns, each as a row of its own."""
    rows, count, _, width = heads.shape
    blocks = heads.index_select(2, columns).view(rows, count, -1, size, width)
    return blocks.transpose(1, 2).reshape(-1, count, size, width)


def _positions_match_columns(positions: Int[Tensor, "G Q"], key_positions: Int[Tensor, "G K"]) -> bool:
    """Return whether column minus position is constant in each row; queries are the last columns."""
    columns = torch.arange(key_positions.size(1), device=positions.device)
    all_positions = torch.cat((key_positions, positions), 1)
    shift = torch.cat((columns, columns[columns.numel() - positions.size(1) :])) - all_positions
    exists, limit = all_positions >= 0, torch.iinfo(shift.dtype)
    largest = torch.where(exists, shift, limit.min).amax(1)
    smallest = torch.where(exists, shift, limit.max).amin(1)
    return bool((largest <= smallest).all())
