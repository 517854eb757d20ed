"""Single-head attention: score, choose, combine."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.attention.choice import Choice, softmax
from heedful.attention.probe import Probe
from heedful.attention.scores import Score


class Attention(nn.Module):
    """c = sum_i v_i choose_i(score(q, k_i)): what a query takes from a memory (Hu 2018, eq. 1-3).

    Args:
        score: how well each key answers the query.
        choose: how scores become weights.
    """

    def __init__(self, score: Score, choose: Choice = softmax) -> None:
        super().__init__()
        self.score = score
        self.choose = choose
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
        weights: Tensor = self.probe(self.choose(self.score(query, key), visible))
        return weights @ value
