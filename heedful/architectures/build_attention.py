"""From names to scores and choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from heedful.architectures.attention import HeadsConfig, ScoreName, WeightsName
from heedful.attention import (
    Additive,
    Choice,
    Concat,
    Dot,
    ExpDot,
    General,
    LinearChain,
    Location,
    ScaledDot,
    Score,
    Scored,
    StraightThrough,
    Weigher,
    proportional,
    softmax,
)


def build_score(name: ScoreName, *, d_query: int, d_key: int, d_hidden: int, bias: bool, longest: int) -> Score:
    """A score of queries and keys of these widths; `longest` is how many positions `Location` knows."""
    made: dict[ScoreName, Callable[[], Score]] = {
        "dot": Dot,
        "scaled_dot": ScaledDot,
        "exp_dot": ExpDot,
        "general": lambda: General(d_query, d_key),
        "concat": lambda: Concat(d_query, d_key, d_hidden),
        "additive": lambda: Additive(d_query, d_key, d_hidden, bias=bias),
        "location": lambda: Location(d_query, longest),
    }
    return made[name]()


def build_choice(name: WeightsName) -> Choice:
    """A way to make weights of scores."""
    match name:
        case "softmax":
            return softmax
        case "proportional":
            return proportional
        case "straight_through":
            return StraightThrough()
        case "linear_chain":
            return LinearChain()
    assert_never(name)


def build_weigher(config: HeadsConfig, *, d_k: int, longest: int) -> Weigher | None:
    """How heads of this width weigh keys; None is the usual way."""
    if (config.score, config.weights) == ("scaled_dot", "softmax"):
        return None
    score = build_score(
        config.score,
        d_query=d_k,
        d_key=d_k,
        d_hidden=config.d_alignment or d_k,
        bias=config.alignment_bias,
        longest=longest,
    )
    return Scored(score, build_choice(config.weights))
