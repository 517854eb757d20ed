"""Who looks at what in one call: computed once for a stack, used by all its layers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heedful.attention.visibility import Visibility
from heedful.values import Rows


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
        together = torch.cat((self.positions, positions), 1)
        if self.width == 1:
            return Slots(together)
        groups, written = positions.shape
        mine = torch.eye(self.width, dtype=torch.bool, device=positions.device)
        mine = mine.repeat_interleave(written // self.width, 1).repeat(groups, 1)
        before = self.owned
        if before is None:
            before = mine.new_ones(groups * self.width, self.positions.size(1))
        return Slots(together, torch.cat((before, mine), 1), self.width)

    def rearrange(self, rows: Rows) -> Slots:
        """With other rows; keys that a freely picked row did not own are marked as absent."""
        groups = rows.source_groups(self.width)
        positions = self.positions if groups is None else self.positions.index_select(0, groups)
        owned = None if self.owned is None else self.owned.index_select(0, rows.origin)
        if rows.free and owned is not None:
            return Slots(torch.where(owned, positions, -1))
        return Slots(positions, owned, 1 if rows.free else rows.width)

    def sight(self, positions: Int[Tensor, "G wQ"], visibility: Visibility) -> Sight:
        """What queries at `positions`, those of a group side by side, see of these keys."""
        visible = visibility(positions.unsqueeze(2), self.positions.unsqueeze(1))
        if self.owned is not None:
            groups, keys = self.positions.shape
            owned = self.owned.view(groups, self.width, 1, keys)
            visible = visible.view(groups, self.width, -1, keys).logical_and(owned).view_as(visible)
        return Sight.of(positions, key_positions=self.positions, visible=visible)


@dataclass(frozen=True)
class Sight:
    """What each query sees.

    Attributes:
        positions: of the queries, [G, Q].
        key_positions: of the keys, [G, K].
        visible: who sees whom, broadcast over heads, [G, 1, Q, K]; None when everybody sees everything.
        hidden: the opposite, so that no layer has to turn it round.
        blind: queries that see nothing at all, [G, 1, Q, 1]; None when there are none.
    """

    positions: Int[Tensor, "G Q"]
    key_positions: Int[Tensor, "G K"]
    visible: Bool[Tensor, "G 1 Q K"] | None
    hidden: Bool[Tensor, "G 1 Q K"] | None
    blind: Bool[Tensor, "G 1 Q 1"] | None

    @classmethod
    def of(
        cls,
        positions: Int[Tensor, "G Q"],
        *,
        key_positions: Int[Tensor, "G K"],
        visible: Bool[Tensor, "G Q K"],
    ) -> Sight:
        """Sight from a mask.

        On the CPU the mask is looked at, and dropped where it hides nothing; elsewhere looking would make the
        program wait for the device.
        """
        mask = visible.unsqueeze(1)
        on_cpu = mask.device.type == "cpu"
        if on_cpu and bool(mask.all()):
            return cls(positions, key_positions, None, None, None)
        blind = ~mask.any(-1, keepdim=True)
        return cls(positions, key_positions, mask, ~mask, None if on_cpu and not bool(blind.any()) else blind)
