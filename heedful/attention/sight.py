"""Who looks at what in one call: computed once for a stack, used by all its layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.attention import kernels
from heedful.attention.visibility import Visibility, Window
from heedful.values import Rows, laid_under, one_width


@dataclass(frozen=True)
class Slots:
    """Where the keys of a cache or memory are, and which rows may use them.

    Rows of a state come in groups of `width` that share their keys (see `heedful.values.Rows`): the memory of a
    sentence is kept once for all its beams, and what the beams wrote stays where it was written. Which of the group's
    keys a row descends from is the ancestry table `owned`; rearranging beams rearranges this table, not the keys.

    Attributes:
        positions: position of each key, -1 where there is none, [G, K].
        owned: which keys each row may use, [B, K] with B = G * width; None when all may use all.
        width: rows in a group.
    """

    positions: Int[Tensor, "G K"]
    owned: Bool[Tensor, "B K"] | None = None
    width: int = 1

    def extend(self, positions: Int[Tensor, "G wQ"]) -> Slots:
        """With the keys that each row has just written, which are its own alone."""
        together = torch.cat((self.positions, positions), 1) if self.positions.size(1) else positions
        if self.width == 1:
            return Slots(together)
        groups, written = positions.shape
        mine = torch.eye(self.width, dtype=torch.bool, device=positions.device)
        mine = mine.repeat_interleave(written // self.width, 1).repeat(groups, 1)
        return Slots(together, torch.cat((self.all_owned(), mine), 1), self.width)

    def rearrange(self, rows: Rows) -> Slots:
        """With other rows; keys that a freely picked row did not own are marked as absent."""
        groups = rows.source_groups(self.width)
        positions = self.positions if groups is None else self.positions.index_select(0, groups)
        owned = None if self.owned is None else self.owned.index_select(0, rows.origin)
        if rows.free and owned is not None:
            return Slots(torch.where(owned, positions, -1))
        return Slots(positions, owned, rows.width)

    def needed(self) -> Int[Tensor, "G K_needed"] | None:
        """The columns of keys that some row of their group may use, in order; to their left, where a group needs fewer
        than another, columns of others. None where some group needs them all.

        What beams wrote that no beam descends from any more is not needed: of T tokens in each of w beams little more
        than T.
        """
        groups, keys = self.positions.shape
        if not groups or not keys:
            return None
        used = self._used()
        most = max(int(used.sum(1).amax()), 1)
        if most == keys:
            return None
        return used.byte().sort(dim=1, stable=True).indices[:, keys - most :]

    def at(self, columns: Int[Tensor, "G K_needed"]) -> Slots:
        """Of those columns that `needed` gave."""
        positions = torch.where(self._used(), self.positions, -1).gather(1, columns)
        if self.owned is None:
            return Slots(positions, None, self.width)
        return Slots(positions, self.owned.gather(1, columns.repeat_interleave(self.width, 0)), self.width)

    def _used(self) -> Bool[Tensor, "G K"]:
        used = self.positions >= 0
        if self.owned is None:
            return used
        return used & self.owned.view(len(used), self.width, -1).any(1)

    @classmethod
    def together(cls, parts: Sequence[Slots], *, left: bool) -> Slots:
        """The groups of all; where one has fewer keys, there are none behind them or to their left."""
        width = one_width(part.width for part in parts)
        positions = laid_under([part.positions for part in parts], axis=1, fill=-1, left=left)
        if all(part.owned is None for part in parts):
            return cls(positions, None, width)
        return cls(positions, laid_under([part.all_owned() for part in parts], axis=1, fill=False, left=left), width)

    def columns(self, first: int) -> Int[Tensor, "G first"]:
        """So many, from the first on, of each group."""
        return torch.arange(first, device=self.positions.device).expand(len(self.positions), -1)

    def first(self, columns: int) -> Slots:
        """Only so many, and none behind them."""
        owned = None if self.owned is None else self.owned[:, :columns]
        return Slots(self.positions[:, :columns], owned, self.width)

    def all_owned(self) -> Bool[Tensor, "B K"]:
        """The table of ancestry, even where all rows may use all keys."""
        if self.owned is not None:
            return self.owned
        groups, keys = self.positions.shape
        return torch.ones(groups * self.width, keys, dtype=torch.bool, device=self.positions.device)

    def sight(self, positions: Int[Tensor, "G wQ"], visibility: Visibility) -> Sight:
        """What queries at `positions`, those of a group side by side, see of these keys."""
        if isinstance(visibility, Window) and self.width == 1:
            band = Band.of(visibility, positions, key_positions=self.positions)
            if band is not None:
                return Sight(positions, self.positions, None, None, None, band)
        here, there = (positions[:1], self.positions[:1]) if self._alike(positions) else (positions, self.positions)
        visible = visibility(here.unsqueeze(2), there.unsqueeze(1))
        if self.owned is not None:
            groups, keys = self.positions.shape
            owned = self.owned.view(groups, self.width, 1, keys)
            visible = visible.view(groups, self.width, -1, keys).logical_and(owned).view_as(visible)
        return Sight.of(positions, key_positions=self.positions, visible=visible)

    def _alike(self, positions: Int[Tensor, "G Q"]) -> bool:
        """Whether all rows are known to see the same: those of queries and of keys are one row in memory."""
        return self.owned is None and positions.stride(0) == 0 and self.positions.stride(0) == 0


@dataclass(frozen=True)
class Sight:
    """What each query sees.

    Attributes:
        positions: of the queries, [G, Q].
        key_positions: of the keys, [G, K].
        visible: who sees whom, broadcast over heads, [G, 1, Q, K]; None when everybody sees everything.
        hidden: the opposite, so that no layer has to turn it round.
        blind: queries that see nothing at all, [G, 1, Q, 1]; None when there are none.
        band: who sees whom where that is few and near; the three above are then None.
    """

    positions: Int[Tensor, "G Q"]
    key_positions: Int[Tensor, "G K"]
    visible: Bool[Tensor, "G 1 Q K"] | None
    hidden: Bool[Tensor, "G 1 Q K"] | None
    blind: Bool[Tensor, "G 1 Q 1"] | None
    band: Band | None = None

    def whole(self) -> Sight:
        """The same without a band: all keys, most of them hidden."""
        if self.band is None:
            return self
        visible = self.band.window(self.positions.unsqueeze(2), self.key_positions.unsqueeze(1))
        return Sight.of(self.positions, key_positions=self.key_positions, visible=visible)

    @classmethod
    def of(
        cls,
        positions: Int[Tensor, "G Q"],
        *,
        key_positions: Int[Tensor, "G K"],
        visible: Bool[Tensor, "#G Q K"],
    ) -> Sight:
        """Sight from a mask, of each row or of all alike.

        On the CPU the mask is looked at, and dropped where it hides nothing; elsewhere looking would make the
        program wait for the device, and while the program is written down there is nothing to look at.
        """
        mask = visible.unsqueeze(1)
        looked_at = mask.device.type == "cpu" and not kernels.traced()
        if looked_at and bool(mask.all()):
            return cls(positions, key_positions, None, None, None)
        blind = ~mask.any(-1, keepdim=True)
        nobody = looked_at and not bool(blind.any())
        shown, hidden, blind = (each.expand(positions.size(0), -1, -1, -1) for each in (mask, ~mask, blind))
        return cls(positions, key_positions, shown, hidden, None if nobody else blind)


@dataclass(frozen=True)
class Band:
    """A window over tokens that stand in line, cut into N blocks of S queries and the W keys that these may see.

    Blocks are rows of their own, so attention to them is attention as anywhere else, and restricted self-attention
    costs what its window is wide, not what the text is long: O(n r d) (Vaswani et al. 2017, table 1).

    Attributes:
        window: who sees whom.
        queries: Q, the last ones of the tokens in line.
        asking: the query at each place of each block, [N S]; where the last block has too many, the last one again.
        near: the key at each place of each block, [N W]; beyond the ends of the line, any.
        blocks: who sees whom in each block.
    """

    window: Window
    queries: int
    asking: Int[Tensor, " NS"]
    near: Int[Tensor, " NW"]
    blocks: Sight

    @classmethod
    def of(cls, window: Window, positions: Int[Tensor, "G Q"], *, key_positions: Int[Tensor, "G K"]) -> Band | None:
        """The band, if it is worth its while and the position of each token is its column but for a shift of its row.

        Positions are looked at on every device: the mask that this may save is larger than the wait is long.
        """
        queries, keys = positions.size(1), key_positions.size(1)
        if not kernels.prefer_band(queries, keys, window=window):
            return None
        if not _in_line(positions, key_positions):
            return None
        size, width = kernels.block(queries, window=window)
        starts = torch.arange(0, queries, size, device=positions.device).unsqueeze(1)
        place = torch.arange(width, device=positions.device)
        asking = (starts + place[:size]).clamp(max=queries - 1).flatten()
        near = (starts + (keys - queries - window.before) + place).flatten()
        inside = (near >= 0) & (near < keys)
        near = near.clamp(0, keys - 1)
        here = positions[:, asking].view(-1, size)
        there = torch.where(inside, key_positions[:, near], -1).view(-1, width)
        visible = window(here.unsqueeze(2), there.unsqueeze(1))
        return cls(window, queries, asking, near, Sight.of(here, key_positions=there, visible=visible))

    def cut_queries(self, heads: Float[Tensor, "G H Q d"]) -> Float[Tensor, "GN H S d"]:
        """The queries of each block."""
        return _pieces(heads, self.asking, size=self.blocks.positions.size(1))

    def cut_keys(self, heads: Float[Tensor, "G H K d"]) -> Float[Tensor, "GN H W d"]:
        """The keys or values that queries of each block may see."""
        return _pieces(heads, self.near, size=self.blocks.key_positions.size(1))

    def join(self, contexts: Float[Tensor, "GN H S d_v"]) -> Float[Tensor, "G H Q d_v"]:
        """The contexts of all queries, of those of each block."""
        heads, width = contexts.size(1), contexts.size(3)
        rows = contexts.transpose(1, 2).reshape(-1, self.asking.numel(), heads, width)
        return rows[:, : self.queries].transpose(1, 2)


def _pieces(
    heads: Float[Tensor, "G H T d"], columns: Int[Tensor, " Nsize"], *, size: int
) -> Float[Tensor, "GN H size d"]:
    rows, count, _, width = heads.shape
    pieces = heads.index_select(2, columns).view(rows, count, -1, size, width)
    return pieces.transpose(1, 2).reshape(-1, count, size, width)


def _in_line(positions: Int[Tensor, "G Q"], key_positions: Int[Tensor, "G K"]) -> bool:
    """Whether column minus position is one number for all tokens of a row; queries are the last of the columns."""
    columns = torch.arange(key_positions.size(1), device=positions.device)
    both = torch.cat((key_positions, positions), 1)
    shift = torch.cat((columns, columns[columns.numel() - positions.size(1) :])) - both
    exists, limit = both >= 0, torch.iinfo(shift.dtype)
    most = torch.where(exists, shift, limit.min).amax(1)
    least = torch.where(exists, shift, limit.max).amin(1)
    return bool((most <= least).all())
