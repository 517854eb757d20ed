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


def former_bias(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Additive scores had one before there was the key `alignment_bias`."""
    return {"alignment_bias": table.get("score") == "additive"}


def overflow(score: str, weights: str, above: str) -> Iterator[str]:
    """The risk of a score that is an exponential already, where the weights take another one of it."""
    if score == "exp_dot" and weights != "proportional":
        yield (
            f'{above}weights = "{weights}" takes exponentials of the exponentials of {above}score = "exp_dot", whose '
            f'gradients overflow where states are wide: set {above}weights = "proportional", or {above}score = "dot"'
        )


class HeadsConfig(Section):
    """How each head weighs what it sees; the defaults are the paper's and have fast kernels."""

    score: ScoreName = "scaled_dot"
    """how a query is compared with a key"""
    d_alignment: Count | None = None
    """hidden width of additive and concat scores; the width of a head if not given"""
    alignment_bias: AlignmentBias = False
    """add a learned bias inside the tanh of additive scores, which the paper has not"""
    weights: WeightsName = "softmax"
    """how scores become weights"""

    @classmethod
    def formerly(cls, table: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Additive scores had a bias."""
        return former_bias(table)

    def risks(self, above: str) -> Iterator[str]:
        """Exponentials of exponentials."""
        return overflow(self.score, self.weights, above)
