"""From configs to searches: how outputs are looked for, and how long they may become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from heedful.data.tokenizers import Special
from heedful.errors import RecipeError
from heedful.generation import Filter, Forbid, MinP, Multinomial, Penalty, Power, RepetitionPenalty, TopK, TopP, Wu
from heedful.generation.search import Beam, Greedy, Sampling, Search
from heedful.recipes.generation import (
    BeamConfig,
    ContinuationConfig,
    GenerationConfig,
    GreedyConfig,
    GreedyContinuationConfig,
    SampledContinuationConfig,
    SamplingConfig,
)


@dataclass(frozen=True)
class Length:
    """The longest translation: ratio times the source's tokens and `extra` more."""

    ratio: float = 1.0
    extra: int = 50


def build_search(config: GenerationConfig, special: Special, *, n_best: int = 1, seed: int = 1) -> Search:
    """How outputs are looked for in a vocabulary with these special ids."""
    eos, unspeakable = special.eos, _unspeakable(special.unspeakable)
    match config:
        case GreedyConfig():
            if n_best > 1:
                raise RecipeError(f"n-best {n_best}: greedy search finds one output; use a beam or sampling")
            return Greedy(eos, unspeakable)
        case BeamConfig(width=width, length_penalty=alpha, normalisation=normalisation):
            penalty = Wu(alpha) if normalisation == "wu" else Power(alpha)
            return Beam(eos, max(width, n_best), penalty, n_best, unspeakable)
        case SamplingConfig():
            return Sampling(eos, _multinomial(config, forbidden=unspeakable, seed=seed), n_best)
    assert_never(config)


def build_continuation(
    config: ContinuationConfig, special: Special, *, n: int = 1, seed: int = 1
) -> tuple[Search, int]:
    """How continuations are looked for in a vocabulary with these special ids, and the most tokens of one."""
    unknown = () if special.unk is None else (special.unk,)
    eos, unspeakable = special.eos, _unspeakable((*special.unspeakable, *unknown))
    # the end of a document also stands before every document, which is no repetition
    theta = config.repetition_penalty
    penalties: tuple[Penalty, ...] = () if theta == 1 else (RepetitionPenalty(theta, spared=(eos,)),)
    match config:
        case GreedyContinuationConfig():
            if n > 1:
                raise RecipeError(f"{n} samples: greedy search finds one continuation; use sampling")
            return Greedy(eos, unspeakable, penalties), config.tokens
        case SampledContinuationConfig():
            pick = _multinomial(config, forbidden=unspeakable, seed=seed)
            return Sampling(eos, pick, n, penalties), config.tokens
    assert_never(config)


def build_length(config: GenerationConfig) -> Length:
    """How long outputs may become."""
    return Length(config.max_ratio, config.max_extra)


def _unspeakable(ids: tuple[int, ...]) -> tuple[Filter, ...]:
    return (Forbid(ids),) if ids else ()


def _multinomial(
    config: SamplingConfig | SampledContinuationConfig, *, forbidden: tuple[Filter, ...], seed: int
) -> Multinomial:
    filters = list(forbidden)
    if config.top_k is not None:
        filters.append(TopK(config.top_k))
    if config.top_p is not None:
        filters.append(TopP(config.top_p))
    if config.min_p is not None:
        filters.append(MinP(config.min_p))
    return Multinomial(config.temperature, tuple(filters), seed=seed)
