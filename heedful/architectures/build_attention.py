"""From names to scores and choices."""

from __future__ import annotations

from collections.abc import Callable

from heedful.architectures.attention import HeadsConfig, ScoredConfig, ScoreName, WeightsName
from heedful.attention import Choice, LinearChain, Scored, StraightThrough, Weigher, proportional, scores, softmax


def build_score(config: ScoredConfig, *, d_query: int, d_key: int, d_hidden: int, longest: int) -> scores.Score:
    """A score of queries and keys of these widths; `longest` is how many positions `Location` knows."""
    made: dict[ScoreName, Callable[[], scores.Score]] = {
        "dot": scores.Dot,
        "scaled_dot": scores.ScaledDot,
        "exp_dot": scores.ExpDot,
        "general": lambda: scores.General(d_query, d_key),
        "concat": lambda: scores.Concat(d_query, d_key, d_hidden),
        "additive": lambda: scores.Additive(d_query, d_key, d_hidden, bias=config.alignment_bias),
        "location": lambda: scores.Location(d_query, longest),
    }
    return made[config.score]()


def build_choice(name: WeightsName) -> Choice:
    """A way to make weights of scores."""
    made: dict[WeightsName, Callable[[], Choice]] = {
        "softmax": lambda: softmax,
        "proportional": lambda: proportional,
        "straight_through": StraightThrough,
        "linear_chain": LinearChain,
    }
    return made[name]()


def build_weigher(config: HeadsConfig, *, d_k: int, longest: int) -> Weigher | None:
    """How heads of this width weigh keys; None is the usual way."""
    if (config.score, config.weights) == ("scaled_dot", "softmax"):
        return None
    score = build_score(config, d_query=d_k, d_key=d_k, d_hidden=config.d_alignment or d_k, longest=longest)
    return Scored(score, build_choice(config.weights))
