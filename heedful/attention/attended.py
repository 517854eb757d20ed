"""A memory that is attended to again and again, by the rows of a group together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from heedful.attention.attention import Attention
from heedful.attention.visibility import Visibility, everything
from heedful.values import Memory, Rows, laid_under, one_width, unused


@dataclass(frozen=True)
class Attended:
    """A memory ready to be attended to, kept once for the rows of a group (see `heedful.values.Rows`)."""

    keys: Float[Tensor, "G S d_key"]
    values: Float[Tensor, "G S d_value"]
    positions: Int[Tensor, "G S"]
    width: int = 1

    @classmethod
    def of(cls, attention: Attention, memory: Memory) -> Attended:
        """What a memory is to this attention: keys are projected once."""
        return cls(attention.score.project(memory.keys, memory.positions), memory.values, memory.positions)

    def rearrange(self, rows: Rows) -> Attended:
        """With other rows; what they look at is copied only where groups are picked or dropped."""
        groups, width = rows.source_groups(self.width), 1 if rows.free else rows.width
        if groups is None:
            return Attended(self.keys, self.values, self.positions, width)
        keys, values, positions = (part.index_select(0, groups) for part in (self.keys, self.values, self.positions))
        return Attended(keys, values, positions, width)

    def joined(self, others: Sequence[Attended]) -> Attended:
        """With the groups of others, whose memories may be longer or shorter."""
        parts = [part.trimmed() for part in (self, *others)]
        return Attended(
            laid_under([part.keys for part in parts], axis=1, fill=0.0),
            laid_under([part.values for part in parts], axis=1, fill=0.0),
            laid_under([part.positions for part in parts], axis=1, fill=-1),
            one_width(part.width for part in parts),
        )

    def trimmed(self) -> Attended:
        """Without the last slots that are empty in all groups."""
        slots = self.positions.size(1) - unused(self.positions)
        return Attended(self.keys[:, :slots], self.values[:, :slots], self.positions[:, :slots], self.width)

    def by(
        self,
        attention: Attention,
        query: Float[Tensor, "B Q d"],
        *,
        positions: Int[Tensor, "B Q"],
        visibility: Visibility = everything,
    ) -> Float[Tensor, "B Q d_value"]:
        """What queries at these positions take; those of a group side by side."""
        rows, queries, width = query.shape
        groups = rows // self.width
        where = positions.reshape(groups, self.width * queries)
        visible = visibility(where.unsqueeze(2), self.positions.unsqueeze(1))
        context: Tensor = attention(
            query.reshape(groups, self.width * queries, width), self.keys, value=self.values, visible=visible
        )
        return context.view(rows, queries, context.size(-1))
