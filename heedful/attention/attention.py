"""Single-head attention: score, choose, combine."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from heedful.attention.choice import Choice, Focus, softmax
from heedful.attention.explained import Explained, Explaining
from heedful.attention.scores import Score


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
            scale=1.0,
            bias=None,
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
