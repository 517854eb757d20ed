"""Attention that asks the same questions of every text, and so makes a matrix of fixed size of it."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from heedful.attention.choice import softmax
from heedful.attention.explained import Explained, Explaining


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

    def forward(
        self,
        query: Float[Tensor, "B Q d_query"],
        key: Float[Tensor, "B K d_key"],
        *,
        value: Float[Tensor, "B K d_value"],
        visible: Bool[Tensor, "B Q K"],
    ) -> Float[Tensor, "B Q d_context"]:
        """The sums of all hops side by side; a query is those of all hops side by side, d_query = hops * d_key."""
        weights: Tensor = self.probe(softmax(self._scores(self._split(query), key), visible.unsqueeze(1)))
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
        queries = self._split(query)
        scores = self._scores(queries, key)
        weights = softmax(scores, visible.unsqueeze(1))
        return Explained(
            query=queries,
            key=key.unsqueeze(1).expand(-1, self.hops, -1, -1),
            value=value.unsqueeze(1).expand(-1, self.hops, -1, -1),
            scale=1.0,
            bias=None,
            scores=scores,
            visible=visible,
            weights=weights,
            context=weights @ value.unsqueeze(1),
        )

    def _split(self, query: Float[Tensor, "B Q d_query"]) -> Float[Tensor, "B hops Q d_key"]:
        return query.view(*query.shape[:2], self.hops, -1).transpose(1, 2)

    @staticmethod
    def _scores(query: Float[Tensor, "B hops Q d_key"], key: Float[Tensor, "B K d_key"]) -> Float[Tensor, "B hops Q K"]:
        return query @ key.unsqueeze(1).transpose(-2, -1)
