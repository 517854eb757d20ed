"""How attention compares and chooses, as data."""

from __future__ import annotations

from typing import Literal

from heedful.recipes.section import Count, Section

ScoreName = Literal["dot", "scaled_dot", "exp_dot", "general", "concat", "additive", "location"]
WeightsName = Literal["softmax", "proportional", "straight_through", "linear_chain"]


class HeadsConfig(Section):
    """How each head weighs what it sees; the defaults are the paper's and have fast kernels."""

    score: ScoreName = "scaled_dot"
    """how a query is compared with a key"""
    d_alignment: Count | None = None
    """hidden width of additive and concat scores; the width of a head if not given"""
    weights: WeightsName = "softmax"
    """how scores become weights"""
