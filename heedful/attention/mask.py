"""Who looks at what in one call: computed once for a stack, used by all its layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.attention import kernels
from heedful.attention.mask_functions import MaskFunction, SlidingWindow
from heedful.tensors import RowSelection, pad_and_concat, require_same_width


@dataclass(frozen=True)
class CacheLayout:
    """Where the keys of a cache or memory are, and which rows may use them.

    Rows of a state come in groups of `width` that share their keys (see `heedful.tensors.RowSelection`): the memory of a
    sentence is kept once for all its beams, and what the beams wrote stays where it was written. Which of the group's
    keys a row descends from is the ancestry table `key_mask`; rearranging beams rearranges this table, not the keys.

    Attributes:
        positions: position of each key, -1 where there is none, [G, K].
        key_mask: which keys each row may use, [B, K] with B = G * width; None when all may use all.
        width: rows in a group.
    """

    positions: Int[Tensor, "G K"]
    key_mask: Bool[Tensor, "B K"] | None = None
    width: int = 1

    def extend(self, positions: Int[Tensor, "G wQ"]) -> CacheLayout:
        """With the keys that each row has just written, which are its own alone."""
        all_positions = torch.cat((self.positions, positions), 1) if self.positions.size(1) else positions
        if self.width == 1:
            return CacheLayout(all_positions)
        groups, new_keys = positions.shape
        new_mask = torch.eye(self.width, dtype=torch.bool, device=positions.device)
        new_mask = new_mask.repeat_interleave(new_keys // self.width, 1).repeat(groups, 1)
        return CacheLayout(all_positions, torch.cat((self.dense_key_mask(), new_mask), 1), self.width)

    def reorder(self, rows: RowSelection) -> CacheLayout:
        """With other rows; keys that a freely picked row did not own are marked as absent."""
        groups = rows.source_groups(self.width)
        positions = self.positions if groups is None else self.positions.index_select(0, groups)
        owned = None if self.key_mask is None else self.key_mask.index_select(0, rows.origin)
        if rows.ignores_groups and owned is not None:
            return CacheLayout(torch.where(owned, positions, -1))
        return CacheLayout(positions, owned, rows.width)

    def needed_columns(self) -> Int[Tensor, "G K_needed"] | None:
        """The columns of keys that some row of their group may use, in order; to their left, where a group needs fewer
        than another, columns of others. None where some group needs them all.

        What beams wrote that no beam descends from any more is not needed: of T tokens in each of w beams little more
        than T.
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
        """Of those columns that `needed_columns` gave."""
        positions = torch.where(self._find_used_keys(), self.positions, -1).gather(1, columns)
        if self.key_mask is None:
            return CacheLayout(positions, None, self.width)
        return CacheLayout(positions, self.key_mask.gather(1, columns.repeat_interleave(self.width, 0)), self.width)

    def _find_used_keys(self) -> Bool[Tensor, "G K"]:
        exists = self.positions >= 0
        if self.key_mask is None:
            return exists
        return exists & self.key_mask.view(len(exists), self.width, -1).any(1)

    @classmethod
    def concat_groups(cls, layouts: Sequence[CacheLayout], *, pad_left: bool) -> CacheLayout:
        """The groups of all; where one has fewer keys, there are none behind them or to their left."""
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
        """So many, from the first on, of each group."""
        return torch.arange(count, device=self.positions.device).expand(len(self.positions), -1)

    def truncate(self, count: int) -> CacheLayout:
        """Only so many, and none behind them."""
        owned = None if self.key_mask is None else self.key_mask[:, :count]
        return CacheLayout(self.positions[:, :count], owned, self.width)

    def dense_key_mask(self) -> Bool[Tensor, "B K"]:
        """The table of ancestry, even where all rows may use all keys."""
        if self.key_mask is not None:
            return self.key_mask
        groups, keys = self.positions.shape
        return torch.ones(groups * self.width, keys, dtype=torch.bool, device=self.positions.device)

    def build_mask(self, positions: Int[Tensor, "G wQ"], mask_function: MaskFunction) -> AttentionMask:
        """What queries at `positions`, those of a group side by side, see of these keys."""
        if isinstance(mask_function, SlidingWindow) and self.width == 1:
            band = BandedMask.from_positions(mask_function, positions, key_positions=self.positions)
            if band is not None:
                return AttentionMask(positions, self.positions, None, None, None, band)
        query_positions, key_positions = (
            (positions[:1], self.positions[:1]) if self._rows_are_identical(positions) else (positions, self.positions)
        )
        visible = mask_function(query_positions.unsqueeze(2), key_positions.unsqueeze(1))
        if self.key_mask is not None:
            groups, keys = self.positions.shape
            owned = self.key_mask.view(groups, self.width, 1, keys)
            visible = visible.view(groups, self.width, -1, keys).logical_and(owned).view_as(visible)
        return AttentionMask.from_visible(positions, key_positions=self.positions, visible=visible)

    def _rows_are_identical(self, positions: Int[Tensor, "G Q"]) -> bool:
        """Whether all rows are known to see the same: those of queries and of keys are one row in memory."""
        return self.key_mask is None and positions.stride(0) == 0 and self.positions.stride(0) == 0


@dataclass(frozen=True)
class AttentionMask:
    """What each query sees.

    Attributes:
        positions: of the queries, [G, Q].
        key_positions: of the keys, [G, K].
        visible: who sees whom, broadcast over heads, [G, 1, Q, K]; None when everybody sees everything.
        hidden: the opposite, so that no layer has to turn it round.
        fully_masked: queries that see nothing at all, [G, 1, Q, 1]; None when there are none.
        band: who sees whom where that is few and near; the three above are then None.
    """

    positions: Int[Tensor, "G Q"]
    key_positions: Int[Tensor, "G K"]
    visible: Bool[Tensor, "G 1 Q K"] | None
    hidden: Bool[Tensor, "G 1 Q K"] | None
    fully_masked: Bool[Tensor, "G 1 Q 1"] | None
    band: BandedMask | None = None

    def to_dense(self) -> AttentionMask:
        """The same without a band: all keys, most of them hidden."""
        if self.band is None:
            return self
        visible = self.band.window(self.positions.unsqueeze(2), self.key_positions.unsqueeze(1))
        return AttentionMask.from_visible(self.positions, key_positions=self.key_positions, visible=visible)

    @classmethod
    def from_visible(
        cls,
        positions: Int[Tensor, "G Q"],
        *,
        key_positions: Int[Tensor, "G K"],
        visible: Bool[Tensor, "#G Q K"],
    ) -> AttentionMask:
        """Sight from a mask, of each row or of all alike.

        On the CPU the mask is looked at, and dropped where it hides nothing; elsewhere looking would make the
        program wait for the device, and while the program is written down there is nothing to look at.
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
    """A window over tokens that stand in line, cut into N blocks of S queries and the W keys that these may see.

    Blocks are rows of their own, so attention to them is attention as anywhere else, and restricted self-attention
    costs what its window is wide, not what the text is long: O(n r d) (Vaswani et al. 2017, table 1).

    Attributes:
        window: who sees whom.
        num_queries: Q, the last ones of the tokens in line.
        query_columns: the query at each place of each block, [N S]; where the last block has too many, the last one again.
        key_columns: the key at each place of each block, [N W]; beyond the ends of the line, any.
        block_mask: who sees whom in each block.
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
        """The band, if it is worth its while and the position of each token is its column but for a shift of its row.

        Positions are looked at on every device: the mask that this may save is larger than the wait is long.
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

    def split_queries(self, heads: Float[Tensor, "G H Q d"]) -> Float[Tensor, "GN H S d"]:
        """The queries of each block."""
        return _gather_blocks(heads, self.query_columns, size=self.block_mask.positions.size(1))

    def split_keys(self, heads: Float[Tensor, "G H K d"]) -> Float[Tensor, "GN H W d"]:
        """The keys or values that queries of each block may see."""
        return _gather_blocks(heads, self.key_columns, size=self.block_mask.key_positions.size(1))

    def merge_blocks(self, contexts: Float[Tensor, "GN H S d_v"]) -> Float[Tensor, "G H Q d_v"]:
        """The contexts of all queries, of those of each block."""
        heads, width = contexts.size(1), contexts.size(3)
        rows = contexts.transpose(1, 2).reshape(-1, self.query_columns.numel(), heads, width)
        return rows[:, : self.num_queries].transpose(1, 2)


def _gather_blocks(
    heads: Float[Tensor, "G H T d"], columns: Int[Tensor, " Nsize"], *, size: int
) -> Float[Tensor, "GN H size d"]:
    rows, count, _, width = heads.shape
    blocks = heads.index_select(2, columns).view(rows, count, -1, size, width)
    return blocks.transpose(1, 2).reshape(-1, count, size, width)


def _positions_match_columns(positions: Int[Tensor, "G Q"], key_positions: Int[Tensor, "G K"]) -> bool:
    """Whether column minus position is one number for all tokens of a row; queries are the last of the columns."""
    columns = torch.arange(key_positions.size(1), device=positions.device)
    all_positions = torch.cat((key_positions, positions), 1)
    shift = torch.cat((columns, columns[columns.numel() - positions.size(1) :])) - all_positions
    exists, limit = all_positions >= 0, torch.iinfo(shift.dtype)
    largest = torch.where(exists, shift, limit.min).amax(1)
    smallest = torch.where(exists, shift, limit.max).amin(1)
    return bool((largest <= smallest).all())
