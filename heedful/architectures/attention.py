"""How attention compares and chooses, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ValidationInfo

from heedful.recipes.section import Count, Section

ScoreName = Literal["dot", "scaled_dot", "exp_dot", "general", "concat", "additive", "location"]
WeightsName = Literal["softmax", "proportional", "straight_through", "linear_chain"]


def _of_additive(bias: bool, info: ValidationInfo) -> bool:
    if bias and info.data.get("score", "additive") != "additive":
        raise ValueError('is for score = "additive" alone: leave it away')
    return bias


AlignmentBias = Annotated[bool, AfterValidator(_of_additive)]
"""Stands behind the key `score`."""


class ScoredConfig(Section):
    """Abstract: how queries are compared with keys, and what becomes of the scores."""

    score: ScoreName = "scaled_dot"
    """how a query is compared with a key"""
    alignment_bias: AlignmentBias = False
    """add a learned bias inside the tanh of additive scores, which the paper has not"""
    weights: str = "softmax"
    """how scores become weights"""

    @classmethod
    def formerly(cls, table: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Additive scores had a bias before there was the key `alignment_bias`."""
        return {"alignment_bias": table.get("score") == "additive"}

    def risks(self, above: str) -> Iterator[str]:
        """A score that is an exponential already, where the weights take another one of it."""
        if self.score == "exp_dot" and self.weights != "proportional":
            yield (
                f'{above}weights = "{self.weights}" takes exponentials of the exponentials of {above}score = '
                f'"{self.score}", whose gradients overflow where states are wide: set {above}weights = "proportional", '
                f'or {above}score = "dot"'
            )


class HeadsConfig(ScoredConfig):
    """How each head weighs what it sees; the defaults are the paper's and have fast kernels."""

    weights: WeightsName = "softmax"
    """how scores become weights"""
    d_alignment: Count | None = None
    """hidden width of additive and concat scores; the width of a head if not given"""
