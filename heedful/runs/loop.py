"""From the table [training] to the parts of the loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import torch
from torch import nn

from heedful.errors import RecipeError
from heedful.models.depth import depths
from heedful.recipes.training import (
    ConstantConfig,
    CosineConfig,
    FineTuningConfig,
    InverseSqrtConfig,
    LinearConfig,
    NoamConfig,
    TrainingConfig,
)
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


_BODY = "encoder"


def freeze(model: nn.Module, config: TrainingConfig) -> None:
    """Takes out of training what the recipe wants to keep as it is; nothing in tasks that keep nothing.

    Raises:
        RecipeError: there are not as many layers.
    """
    if not isinstance(config, FineTuningConfig) or config.freeze == 0:
        return
    found = depths(model, body=_BODY)
    if config.freeze != "encoder" and config.freeze > found.layers:
        raise RecipeError(
            f'training.freeze = {config.freeze}: this model has {found.layers} layers; set at most that, or "encoder"'
        )
    for name, parameter in model.named_parameters():
        if config.freeze == "encoder":
            still = name.startswith(f"{_BODY}.")
        else:
            still = found.of[name] > found.layers - config.freeze
        parameter.requires_grad_(not still)


def rate_factors(model: nn.Module, config: TrainingConfig) -> Mapping[str, float]:
    """What the learning rate of each parameter is multiplied by: layer_decay^depth (Howard and Ruder 2018, 3.2; Clark
    et al. 2020, A.2); empty where all have the same."""
    if not isinstance(config, FineTuningConfig) or config.layer_decay == 1:
        return {}
    return {name: config.layer_decay**depth for name, depth in depths(model, body=_BODY).of.items()}
