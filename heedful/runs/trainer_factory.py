"""Construction of the trainer from the table [training] of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import torch
from torch import Tensor, nn

from heedful.errors import RecipeError
from heedful.models.parameters import measure_depths
from heedful.recipes import toml
from heedful.recipes.training import (
    AdamConfig,
    ConstantConfig,
    CosineConfig,
    FineTunableTrainingConfig,
    FineTuningTrainingConfig,
    InverseSqrtConfig,
    LinearConfig,
    NoamConfig,
    SgdConfig,
    TrainingConfig,
)
from heedful.runs.checkpoints import FolderCheckpointSaver
from heedful.runs.initialization import get_frozen_names
from heedful.tasks.objective import TrainingObjective
from heedful.tasks.task import Run
from heedful.training.callbacks import Callback
from heedful.training.distributed import DistributedContext
from heedful.training.optimizers import (
    SGD,
    Adam,
    ConstantSchedule,
    CosineSchedule,
    InverseSquareRootSchedule,
    LearningRateSchedule,
    LinearSchedule,
    MovingAverage,
    NoamSchedule,
    Optimizer,
    TimeBasedSchedule,
)
from heedful.training.precision import BF16WithMasters, FullPrecision, is_faster_in_bf16
from heedful.training.trainer import StoppingLimits, Trainer, TrainerConfig


def build_trainer(
    run: Run[Any, Any],
    model: nn.Module,
    objective: TrainingObjective[Any],
    *,
    world: DistributedContext,
    callback: Callback,
) -> Trainer[Any]:
    """Build the trainer of a run's model on an objective, for the processes of `world`; `callback` is notified of
    updates and evaluations. It computes in bf16 if the recipe asks for it or it is faster.
    """
    config, limits = run.recipe.training, build_limits(run.recipe.training)
    precision_type = BF16WithMasters if uses_bf16(config, model, world.device) else FullPrecision
    precision = precision_type(model, frozen=get_frozen_names(run))
    return Trainer(
        model,
        objective,
        optimizer=_build_optimizer(config, precision.trainable, factors=compute_rate_factors(model, config)),
        precision=precision,
        schedule=_build_schedule(
            config, d_model=run.recipe.model.d_model, steps=_count_steps(config, objective, limits)
        ),
        distributed=world,
        limits=limits,
        config=TrainerConfig(
            seed=run.recipe.seed,
            accumulate=config.accumulate,
            clip=config.clip,
            evaluate_every=config.evaluate_every,
            monitor=config.monitor,
            higher_is_better=config.monitor.rpartition("/")[2] != "loss",
        ),
        callback=callback,
        checkpoint_saver=FolderCheckpointSaver(run.folder, keep=config.keep),
        average=MovingAverage(precision.masters, config.ema) if config.ema is not None else None,
    )


def build_limits(config: TrainingConfig) -> StoppingLimits:
    """Build the limits that end training."""
    min_steps = config.min_steps if isinstance(config, FineTuningTrainingConfig) else None
    return StoppingLimits(config.steps, config.epochs, config.minutes, config.patience, min_steps or 0)


def uses_bf16(config: TrainingConfig, model: nn.Module, device: torch.device) -> bool:
    """Whether training computes in bf16 on a device."""
    return config.precision == "bf16" or (config.precision == "auto" and is_faster_in_bf16(model, device))


def _build_optimizer(
    config: TrainingConfig, parameters: Mapping[str, Tensor], *, factors: Mapping[str, float]
) -> Optimizer:
    """Build the optimizer of the recipe for parameters by name; `factors` multiplies the learning rate of each
    parameter.
    """
    decay = config.optimizer.weight_decay
    match config.optimizer:
        case SgdConfig():
            return SGD(parameters, weight_decay=decay, factors=factors)
        case AdamConfig(beta1=beta1, beta2=beta2, epsilon=epsilon):
            return Adam(parameters, betas=(beta1, beta2), epsilon=epsilon, weight_decay=decay, factors=factors)
    assert_never(config.optimizer)


def _count_steps(config: TrainingConfig, objective: TrainingObjective[Any], limits: StoppingLimits) -> int | None:
    """Count the updates that the limits on steps and epochs allow; None if only the clock ends training. The objective
    knows the number of updates in an epoch, which is used only if the schedule needs it.
    """
    if limits.epochs is None or not isinstance(config.schedule, CosineConfig | LinearConfig):
        return limits.steps
    per_epoch = (len(objective.plan_updates(epoch, accumulate=config.accumulate)) for epoch in range(limits.epochs))
    by_epochs = max(sum(per_epoch), limits.min_steps)
    return by_epochs if limits.steps is None else min(by_epochs, limits.steps)


def _build_schedule(config: TrainingConfig, *, d_model: int, steps: int | None) -> LearningRateSchedule:
    """Build the learning-rate schedule that the recipe names; `steps` is the number of updates, None if only the clock
    ends training. `d_model` is the model's width, which the kind noam uses.
    """
    match config.schedule:
        case NoamConfig(factor=factor, warmup=warmup):
            return NoamSchedule(d_model, warmup, factor)
        case InverseSqrtConfig(rate=rate, warmup=warmup):
            return InverseSquareRootSchedule(rate, warmup)
        case CosineConfig(rate=rate, warmup=warmup, floor=floor):
            by_clock = TimeBasedSchedule(CosineSchedule(rate, 0, TimeBasedSchedule.TICKS, floor), warmup)
            return by_clock if steps is None else CosineSchedule(rate, warmup, steps, floor)
        case LinearConfig(rate=rate, warmup=warmup, warmup_share=share):
            warmup_ticks = 0 if share is None else round(share * (steps or TimeBasedSchedule.TICKS))
            by_clock = TimeBasedSchedule(LinearSchedule(rate, warmup_ticks, TimeBasedSchedule.TICKS), warmup)
            return by_clock if steps is None else LinearSchedule(rate, warmup or warmup_ticks, steps)
        case ConstantConfig(rate=rate, warmup=warmup):
            return ConstantSchedule(rate, warmup)
    assert_never(config.schedule)


def freeze_parameters(model: nn.Module, config: TrainingConfig) -> None:
    """Exclude the parameters that `training.freeze` names from training; does nothing for other tasks.

    Raises:
        RecipeError: the model has fewer layers, or no parameter would be trained.
    """
    if not isinstance(config, FineTunableTrainingConfig) or config.freeze == 0:
        return
    if config.freeze == "encoder":
        frozen = {name for name, _ in model.named_parameters() if name.startswith("encoder.")}
    else:
        count = 0 if config.freeze == "embeddings" else config.freeze
        stack_depths = [measure_depths(model, body=stack) for stack in config.stacks]
        if count > (num_layers := min(stack_depth.num_layers for stack_depth in stack_depths)):
            raise RecipeError(
                f'training.freeze = {count}: this model has {num_layers} layers; set at most that, or "encoder"'
            )
        frozen = {
            name
            for stack_depth in stack_depths
            for name, depth in stack_depth.by_parameter.items()
            if depth > max(stack_depth.num_layers, 1) - count
        }
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise RecipeError(
            f"training.freeze = {toml.format_value(config.freeze)}: no parameter of this model would be trained; "
            "freeze less"
        )


def compute_rate_factors(model: nn.Module, config: TrainingConfig) -> Mapping[str, float]:
    """Return the learning-rate factor of each parameter, layer_decay^depth (Howard and Ruder 2018, 3.2; Clark et
    al. 2020, A.2); empty if all are 1. Each stack is counted from its own top.
    """
    if not isinstance(config, FineTunableTrainingConfig) or config.layer_decay == 1:
        return {}
    stack_depths = [measure_depths(model, body=stack).by_parameter for stack in config.stacks]
    return {
        name: config.layer_decay ** max(depths_by_name[name] for depths_by_name in stack_depths)
        for name, _ in model.named_parameters()
    }
