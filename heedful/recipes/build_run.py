"""From configs to what surrounds a model: schedules, limits, searches."""

from __future__ import annotations

from typing import assert_never

import torch

from heedful.data.special import Special
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
from heedful.recipes.training import (
    ConstantConfig,
    CosineConfig,
    FineTuningConfig,
    InverseSqrtConfig,
    LinearConfig,
    NoamConfig,
    TrainingConfig,
)
from heedful.tasks.translation.translations import Length
from heedful.training.precision import has_fast_bf16
from heedful.training.schedules import Constant, Cosine, InverseSquareRoot, Linear, Noam, Schedule
from heedful.training.trainer import Habits, Limits


def build_schedule(config: TrainingConfig, *, d_model: int, steps: int | None) -> Schedule:
    """The learning rate; `steps` is how many updates there will be, for schedules that must know."""
    match config.schedule:
        case NoamConfig(factor=factor, warmup=warmup):
            return Noam(d_model, warmup, factor)
        case InverseSqrtConfig(rate=rate, warmup=warmup):
            return InverseSquareRoot(rate, warmup)
        case CosineConfig(rate=rate, warmup=warmup, floor=floor):
            assert steps is not None
            return Cosine(rate, warmup, steps, floor)
        case LinearConfig(rate=rate, warmup=warmup, warmup_share=share):
            assert steps is not None
            return Linear(rate, warmup if share is None else round(share * steps), steps)
        case ConstantConfig(rate=rate, warmup=warmup):
            return Constant(rate, warmup)
    assert_never(config.schedule)


def build_limits(config: TrainingConfig) -> Limits:
    """When training ends."""
    least = config.min_steps if isinstance(config, FineTuningConfig) else None
    return Limits(config.steps, config.epochs, config.minutes, config.patience, least or 0)


def build_habits(config: TrainingConfig, *, seed: int, monitor: str) -> Habits:
    """How training goes on from update to update; `monitor` is one of the task's metrics."""
    return Habits(
        seed=seed,
        accumulate=config.accumulate,
        clip=config.clip,
        evaluate_every=config.evaluate_every,
        monitor=monitor,
        higher_is_better=monitor.rpartition("/")[2] != "loss",
    )


def wants_half(config: TrainingConfig, device: torch.device) -> bool:
    """Whether to train in bf16: where asked for, or where the hardware is fast at it."""
    return config.precision == "bf16" or (config.precision == "auto" and has_fast_bf16(device))


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
