"""Attention with one score: score, choose, combine; of many rows to one memory, and in many hops at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.attention.choice import Choice, Focus, called, softmax
from heedful.attention.explained import Explained, Explaining
from heedful.attention.scores import Score
from heedful.attention.visibility import Visibility, everything
from heedful.values import Memory, Rows, laid_under, one_width, used


class Attention(Explaining):
    """c = sum_i v_i choose_i(score(q, k_i)): what a query takes from a memory (Hu 2018, eq. 1-3).

    Args:
        score: how well each key answers the query.
        choose: how scores become weights.
        focus: where a query looks in the first place; None is everywhere that is visible.
    """

    def __init__(self, score: Score, choose: Choice = softmax, *, focus: Focus | None = None) -> None:
        super().__init__()
        self.score = score
        self.choose = choose
        self.focus = focus

    def extra_repr(self) -> str:
        """What `print` says of it besides its parts."""
        return f"choose={called(self.choose)}"

    def forward(
        self,
        query: Float[Tensor, "B Q d_query"],
        key: Float[Tensor, "B K d_projected"],
        *,
        value: Float[Tensor, "B K d_value"],
        visible: Bool[Tensor, "B Q K"],
    ) -> Float[Tensor, "B Q d_value"]:
        """The context of each query; `key` comes from `self.score.project`."""
        weights = self._weights(self.score(query, key), query, visible=visible)
        seen: Tensor = self.probe(weights)
        return seen @ value

    def explain(
        self,
        query: Float[Tensor, "B Q d_query"],
        key: Float[Tensor, "B K d_projected"],
        *,
        value: Float[Tensor, "B K d_value"],
        visible: Bool[Tensor, "B Q K"],
    ) -> Explained:
        """All that lies between the queries and their contexts, which are those of `forward`."""
        scores = self.score(query, key)
        weights = self._weights(scores, query, visible=visible)
        parts = (each.unsqueeze(1) for each in (query, key, value, scores, weights, weights @ value))
        query, key, value, scores, weights, context = parts
        return Explained(
            query=query,
            key=key,
            value=value,
            scores=scores,
            visible=visible,
            weights=weights,
            context=context,
        )

    def _weights(
        self, scores: Float[Tensor, "B Q K"], query: Float[Tensor, "B Q d_query"], *, visible: Bool[Tensor, "B Q K"]
    ) -> Float[Tensor, "B Q K"]:
        if self.focus is None:
            return self.choose(scores, visible)
        emphasis: Tensor = self.focus(query, visible)
        return self.choose(scores, emphasis > 0) * emphasis


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
        groups, width = rows.source_groups(self.width), rows.width
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
        slots = used(self.positions)
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


class Hops(Explaining):
    """M = A H with A = softmax(Q K^T): each hop weighs the same keys by a query of its own (Lin et al. 2017, eq. 6).

    A hop is to this attention what a head is to others, but all hops share keys and values, so that their sums can be
    told apart by what they look at alone.

    Args:
        hops: r, how many there are.
    """

    def __init__(self, hops: int) -> None:
        super().__init__()
        self.hops = self.heads = hops

    def extra_repr(self) -> str:
        """What `print` says of it besides its parts."""
        return f"hops={self.hops}"

    def forward(
        self,
        query: Float[Tensor, "B Q d_query"],
        key: Float[Tensor, "B K d_key"],
        *,
        value: Float[Tensor, "B K d_value"],
        visible: Bool[Tensor, "B Q K"],
    ) -> Float[Tensor, "B Q d_context"]:
        """The sums of all hops side by side; a query is those of all hops side by side, d_query = hops * d_key."""
        weights: Tensor = self.probe(self._weighed(query, key, visible)[-1])
        return (weights @ value.unsqueeze(1)).transpose(1, 2).flatten(2)

    def explain(
        self,
        query: Float[Tensor, "B Q d_query"],
        key: Float[Tensor, "B K d_key"],
        *,
        value: Float[Tensor, "B K d_value"],
        visible: Bool[Tensor, "B Q K"],
    ) -> Explained:
        """All that lies between the queries and their sums, which are those of `forward`."""
        queries, scores, weights = self._weighed(query, key, visible)
        return Explained(
            query=queries,
            key=key.unsqueeze(1).expand(-1, self.hops, -1, -1),
            value=value.unsqueeze(1).expand(-1, self.hops, -1, -1),
            scores=scores,
            visible=visible,
            weights=weights,
            context=weights @ value.unsqueeze(1),
        )

    def _weighed(
        self, query: Float[Tensor, "B Q d_query"], key: Float[Tensor, "B K d_key"], visible: Bool[Tensor, "B Q K"]
    ) -> tuple[Float[Tensor, "B hops Q d_key"], Float[Tensor, "B hops Q K"], Float[Tensor, "B hops Q K"]]:
        """Queries, scores and weights of each hop."""
        queries = query.view(*query.shape[:2], self.hops, -1).transpose(1, 2)
        scores = queries @ key.unsqueeze(1).transpose(-2, -1)
        return queries, scores, softmax(scores, visible.unsqueeze(1))
