"""Single-head attention: score, choose, combine."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.attention.choice import Choice, Focus, softmax
from heedful.attention.probe import Probe
from heedful.attention.scores import Score


class Attention(nn.Module):
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
        self.probe = Probe()

    def forward(
        self,
        query: Float[Tensor, "B Q d_query"],
        key: Float[Tensor, "B K d_projected"],
        *,
        value: Float[Tensor, "B K d_value"],
        visible: Bool[Tensor, "B Q K"],
    ) -> Float[Tensor, "B Q d_value"]:
        """The context of each query; `key` comes from `self.score.project`."""
        scores = self.score(query, key)
        if self.focus is None:
            weights = self.choose(scores, visible)
        else:
            emphasis = self.focus(query, visible)
            weights = self.choose(scores, emphasis > 0) * emphasis
        seen: Tensor = self.probe(weights)
        return seen @ value
