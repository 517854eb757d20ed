"""From the table [training] to the parts of the loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import torch
from torch import Tensor, nn

from heedful.errors import RecipeError
from heedful.models.depth import depths
from heedful.recipes import toml
from heedful.recipes.training import (
    AdamConfig,
    ConstantConfig,
    CosineConfig,
    FineTuningConfig,
    InverseSqrtConfig,
    LinearConfig,
    NoamConfig,
    SgdConfig,
    TrainingConfig,
    TunedTrainingConfig,
)
from heedful.runs.checkpoints import Checkpoints
from heedful.runs.initial import still
from heedful.tasks.kind import Run
from heedful.tasks.task import Task
from heedful.training.distributed import World
from heedful.training.listeners import Listener
from heedful.training.optimizers import Adam, MovingAverage, Optimizer, Sgd
from heedful.training.precision import Exact, Half, is_faster_in_bf16
from heedful.training.schedules import ByClock, Constant, Cosine, InverseSquareRoot, Linear, Noam, Schedule
from heedful.training.trainer import Habits, Limits, Trainer


def build_trainer(
    run: Run[Any, Any], model: nn.Module, task: Task[Any], *, world: World, listener: Listener
) -> Trainer[Any]:
    """What trains a model as its recipe says, in bf16 where that is asked for or faster."""
    config, limits = run.recipe.training, limits_of(run.recipe.training)
    kind = Half if in_half(config, model, world.device) else Exact
    precision = kind(model, still=still(run))
    return Trainer(
        model,
        task,
        optimizer=_optimizer(config, precision.trainable, factors=rate_factors(model, config)),
        precision=precision,
        schedule=_schedule(config, d_model=run.recipe.model.d_model, steps=_steps(config, task, limits)),
        world=world,
        limits=limits,
        habits=Habits(
            seed=run.recipe.seed,
            accumulate=config.accumulate,
            clip=config.clip,
            evaluate_every=config.evaluate_every,
            monitor=config.monitor,
            higher_is_better=config.monitor.rpartition("/")[2] != "loss",
        ),
        listener=listener,
        keeper=Checkpoints(run.folder, keep=config.keep),
        average=MovingAverage(precision.masters, config.ema) if config.ema is not None else None,
    )


def limits_of(config: TrainingConfig) -> Limits:
    """When training ends."""
    least = config.min_steps if isinstance(config, FineTuningConfig) else None
    return Limits(config.steps, config.epochs, config.minutes, config.patience, least or 0)


def in_half(config: TrainingConfig, model: nn.Module, device: torch.device) -> bool:
    """Whether training computes in bf16 there."""
    return config.precision == "bf16" or (config.precision == "auto" and is_faster_in_bf16(model, device))


def _optimizer(config: TrainingConfig, parameters: Mapping[str, Tensor], *, factors: Mapping[str, float]) -> Optimizer:
    """How gradients become steps."""
    decay = config.optimizer.weight_decay
    match config.optimizer:
        case SgdConfig():
            return Sgd(parameters, weight_decay=decay, factors=factors)
        case AdamConfig(beta1=beta1, beta2=beta2, epsilon=epsilon):
            return Adam(parameters, betas=(beta1, beta2), epsilon=epsilon, weight_decay=decay, factors=factors)
    assert_never(config.optimizer)


def _steps(config: TrainingConfig, task: Task[Any], limits: Limits) -> int | None:
    """How many updates there will be, as far as the limits tell."""
    if limits.epochs is None or not isinstance(config.schedule, CosineConfig | LinearConfig):
        return limits.steps
    per_epoch = (len(task.updates(epoch, accumulate=config.accumulate)) for epoch in range(limits.epochs))
    by_epochs = max(sum(per_epoch), limits.min_steps)
    return by_epochs if limits.steps is None else min(by_epochs, limits.steps)


def _schedule(config: TrainingConfig, *, d_model: int, steps: int | None) -> Schedule:
    """The learning rate; `steps` is how many updates there will be, None where the clock alone ends training."""
    match config.schedule:
        case NoamConfig(factor=factor, warmup=warmup):
            return Noam(d_model, warmup, factor)
        case InverseSqrtConfig(rate=rate, warmup=warmup):
            return InverseSquareRoot(rate, warmup)
        case CosineConfig(rate=rate, warmup=warmup, floor=floor):
            by_clock = ByClock(Cosine(rate, 0, ByClock.TICKS, floor), warmup)
            return by_clock if steps is None else Cosine(rate, warmup, steps, floor)
        case LinearConfig(rate=rate, warmup=warmup, warmup_share=share):
            rising = 0 if share is None else round(share * (steps or ByClock.TICKS))
            by_clock = ByClock(Linear(rate, rising, ByClock.TICKS), warmup)
            return by_clock if steps is None else Linear(rate, warmup or rising, steps)
        case ConstantConfig(rate=rate, warmup=warmup):
            return Constant(rate, warmup)
    assert_never(config.schedule)


def freeze(model: nn.Module, config: TrainingConfig) -> None:
    """Takes out of training what the recipe wants to keep as it is; nothing in tasks that keep nothing.

    Raises:
        RecipeError: there are not as many layers, or nothing would learn.
    """
    if not isinstance(config, TunedTrainingConfig) or config.freeze == 0:
        return
    if config.freeze == "encoder":
        still = {name for name, _ in model.named_parameters() if name.startswith("encoder.")}
    else:
        count = 0 if config.freeze == "embeddings" else config.freeze
        found = [depths(model, body=stack) for stack in config.stacks]
        if count > (least := min(each.layers for each in found)):
            raise RecipeError(
                f'training.freeze = {count}: this model has {least} layers; set at most that, or "encoder"'
            )
        still = {name for each in found for name, depth in each.of.items() if depth > max(each.layers, 1) - count}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in still)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise RecipeError(
            f"training.freeze = {toml.value(config.freeze)}: nothing of this model would be left to learn; freeze less"
        )


def rate_factors(model: nn.Module, config: TrainingConfig) -> Mapping[str, float]:
    """What the learning rate of each parameter is multiplied by: layer_decay^depth (Howard and Ruder 2018, 3.2; Clark
    et al. 2020, A.2); empty where all have the same. Each stack counts from its own top."""
    if not isinstance(config, TunedTrainingConfig) or config.layer_decay == 1:
        return {}
    found = [depths(model, body=stack).of for stack in config.stacks]
    return {name: config.layer_decay ** max(of[name] for of in found) for name, _ in model.named_parameters()}
