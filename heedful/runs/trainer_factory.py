"""Construction of the trainer from the table [training] of a recipe, and callbacks that report what training costs
and brings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, assert_never

import torch
from torch import Tensor, nn

from heedful.blocks.residual import TokenBatchNorm
from heedful.blocks.transformer import TransformerLayer, TransformerStack
from heedful.errors import RecipeError
from heedful.memory_limits import get_memory_limit
from heedful.models.model_size import (
    ModelTooLargeError,
    TrainingMemory,
    build_without_memory,
    estimate_training_memory,
    measure_model,
)
from heedful.models.parameters import measure_depths
from heedful.recipes import toml
from heedful.recipes.config import Config
from heedful.recipes.recipe import find_largest_key
from heedful.recipes.training import (
    LOWER_IS_BETTER,
    AdaDeltaConfig,
    AdafactorConfig,
    AdamConfig,
    ConstantConfig,
    CosineConfig,
    FineTunableTrainingConfig,
    FineTuningTrainingConfig,
    InverseSqrtConfig,
    LinearConfig,
    NoamConfig,
    PlateauConfig,
    PredictionTrainingConfig,
    SgdConfig,
    StepConfig,
    TrainingConfig,
)
from heedful.runs.adapter_runs import build_uninitialized_model
from heedful.runs.checkpoints import FolderCheckpointSaver
from heedful.runs.device import get_peak_memory
from heedful.runs.initialization import get_frozen_names
from heedful.runs.metrics_log import LearningCurve, TrainingPoint, ValidationPoint
from heedful.runs.usefulness import describe_short_training
from heedful.tasks.objective import TrainingObjective
from heedful.tasks.task import Run
from heedful.training.callbacks import Callback, EpochPlan, StepMetrics, ValidationResult
from heedful.training.distributed import DistributedContext
from heedful.training.eta import ExpectedEnd, TrainingForecast, format_duration
from heedful.training.history import LossTrend, describe_overfitting, describe_stall
from heedful.training.optimizers import (
    SGD,
    AdaDelta,
    Adafactor,
    Adam,
    ConstantSchedule,
    CosineSchedule,
    InverseSquareRootSchedule,
    LearningRateSchedule,
    LinearSchedule,
    MovingAverage,
    NoamSchedule,
    Optimizer,
    PlateauSchedule,
    StepDecaySchedule,
    TimeBasedSchedule,
)
from heedful.training.precision import BF16WithMasters, FullPrecision, Precision, is_faster_in_bf16
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
    updates and evaluations. The model is moved to the device. It computes in bf16 if the recipe asks for it or it is
    faster.

    Raises:
        RecipeError: the model cannot be trained in this precision, by several processes or on this objective.
    """
    if _has_batch_norm(model):
        _check_batch_norm(run.recipe.training, world)
    config, limits = run.recipe.training, build_limits(run.recipe.training)
    precision = _build_precision(run, model, world)
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
            higher_is_better=config.monitor.rpartition("/")[2] not in LOWER_IS_BETTER,
            r_drop=_get_r_drop(config, objective),
        ),
        callback=callback,
        checkpoint_saver=FolderCheckpointSaver(run.folder, keep=config.keep),
        average=MovingAverage(precision.masters, config.ema) if config.ema is not None else None,
    )


def _build_precision(run: Run[Any, Any], model: nn.Module, world: DistributedContext) -> Precision:
    """Move a run's model to the device of this process, or this process's part of it, and return its precision.

    Raises:
        RecipeError: the parameters cannot be split.
    """
    config, frozen = run.recipe.training, get_frozen_names(run)
    use_bf16 = uses_bf16(config, model, world.device)
    if not is_sharded(config, world):
        model.to(world.device)
        return (BF16WithMasters if use_bf16 else FullPrecision)(model, frozen=frozen)
    from heedful.training import sharding  # takes a second, and few trainings need it

    if isinstance(config.optimizer, AdafactorConfig):
        raise RecipeError(
            'training.optimizer.kind = "adafactor": needs means over whole matrices, which training.shard = true '
            'splits; choose "adam"'
        )
    if getattr(config, "truncation", None) is not None:
        raise RecipeError(
            "training.truncation: makes processes compute with their layers at different times, which training.shard = "
            "true cannot; leave one of them out"
        )
    if not sharding.supports_sharding():
        raise RecipeError(
            f"training.shard = true: needs PyTorch 2.13 or later, but {torch.__version__} is installed; install a "
            "newer version, or leave it out"
        )
    use_bf16 = bool(world.broadcast([float(use_bf16)])[0])  # machines may differ
    dtype = torch.bfloat16 if use_bf16 else torch.float32
    layers = [module for module in model.modules() if isinstance(module, TransformerLayer)]
    return sharding.ShardedPrecision(
        model, world, layers=layers, compute_dtype=dtype, offload=config.offload, frozen=frozen
    )


def is_sharded(config: TrainingConfig, world: DistributedContext) -> bool:
    """Whether several processes hold parts of the parameters instead of all of them."""
    return config.shard and world.size > 1


def _get_r_drop(config: TrainingConfig, objective: TrainingObjective[Any]) -> float:
    """Return the weight of R-Drop; raise `RecipeError` if the losses of the objective have no predictions."""
    r_drop = config.r_drop if isinstance(config, PredictionTrainingConfig) else 0.0
    if r_drop and not objective.has_predictions:
        raise RecipeError(
            f"training.r_drop = {r_drop:g}: compares predicted distributions over tokens or classes, which this model "
            "does not learn from; leave it out"
        )
    return r_drop


def build_limits(config: TrainingConfig) -> StoppingLimits:
    """Build the limits that end training."""
    min_steps = config.min_steps if isinstance(config, FineTuningTrainingConfig) else None
    return StoppingLimits(config.steps, config.epochs, config.minutes, config.patience, min_steps or 0)


def uses_bf16(config: TrainingConfig, model: nn.Module, device: torch.device) -> bool:
    """Whether training computes in bf16 on a device."""
    is_faster = is_faster_in_bf16(model, device) and not _has_batch_norm(model)
    return config.precision == "bf16" or (config.precision == "auto" and is_faster)


def _has_batch_norm(model: nn.Module) -> bool:
    """Return whether a model has batch normalization, whose running averages only fp32 can follow."""
    return any(isinstance(module, TokenBatchNorm) for module in model.modules())


def _check_batch_norm(config: TrainingConfig, world: DistributedContext) -> None:
    """Raise `RecipeError` if training computes in bf16 or in several processes, whose statistics would differ."""
    if config.precision == "bf16":
        raise RecipeError('training.precision = "bf16": model.norm = "batch" is trained in fp32; leave it out')
    if world.size > 1:
        raise RecipeError(
            f'model.norm = "batch": is trained by one process, because each of {world.size} would have statistics of '
            "its own; start one process, or choose another norm"
        )


def _build_optimizer(
    config: TrainingConfig, parameters: Mapping[str, Tensor], *, factors: Mapping[str, float]
) -> Optimizer:
    """Build the optimizer of the recipe for parameters by name; `factors` multiplies the learning rate of each
    parameter.
    """
    decay = config.optimizer.weight_decay
    match config.optimizer:
        case SgdConfig(momentum=momentum, nesterov=nesterov):
            return SGD(parameters, momentum=momentum, nesterov=nesterov, weight_decay=decay, factors=factors)
        case AdamConfig(beta1=beta1, beta2=beta2, epsilon=epsilon):
            return Adam(parameters, betas=(beta1, beta2), epsilon=epsilon, weight_decay=decay, factors=factors)
        case AdaDeltaConfig(rho=rho, epsilon=epsilon):
            return AdaDelta(parameters, rho=rho, epsilon=epsilon, weight_decay=decay, factors=factors)
        case AdafactorConfig(decay_exponent=exponent, clip_threshold=threshold, scale_parameter=scale):
            return Adafactor(
                parameters,
                decay_exponent=exponent,
                clip_threshold=threshold,
                scale_parameter=scale,
                weight_decay=decay,
                factors=factors,
            )
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


_SCHEDULES_BY_CONFIG: Final[Mapping[type[Config], Callable[..., LearningRateSchedule]]] = {
    InverseSqrtConfig: InverseSquareRootSchedule,
    ConstantConfig: ConstantSchedule,
    StepConfig: StepDecaySchedule,
    PlateauConfig: PlateauSchedule,
}
"""Schedules that take the settings of their config under the same names, apart from the rate."""


def _build_schedule(config: TrainingConfig, *, d_model: int, steps: int | None) -> LearningRateSchedule:
    """Build the learning-rate schedule that the recipe names; `steps` is the number of updates, None if only the clock
    ends training. `d_model` is the model's width, which the kind noam uses.
    """
    match config.schedule:
        case NoamConfig(factor=factor, warmup=warmup):
            return NoamSchedule(d_model, warmup, factor)
        case CosineConfig(rate=rate, warmup=warmup, floor=floor):
            by_clock = TimeBasedSchedule(CosineSchedule(rate, 0, TimeBasedSchedule.TICKS, floor), warmup)
            return by_clock if steps is None else CosineSchedule(rate, warmup, steps, floor)
        case LinearConfig(rate=rate, warmup=warmup, warmup_share=share):
            warmup_ticks = 0 if share is None else round(share * (steps or TimeBasedSchedule.TICKS))
            by_clock = TimeBasedSchedule(LinearSchedule(rate, warmup_ticks, TimeBasedSchedule.TICKS), warmup)
            return by_clock if steps is None else LinearSchedule(rate, warmup or warmup_ticks, steps)
        case InverseSqrtConfig() | ConstantConfig() | StepConfig() | PlateauConfig() as schedule:
            settings = schedule.model_dump(exclude={"kind", "rate"})
            return _SCHEDULES_BY_CONFIG[type(schedule)](peak=schedule.rate, **settings)
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
        parameter.requires_grad_(parameter.requires_grad and name not in frozen)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise RecipeError(
            f"training.freeze = {toml.format_value(config.freeze)}: no parameter of this model would be trained; "
            "freeze less"
        )


def set_gradient_checkpointing(model: nn.Module, config: TrainingConfig) -> None:
    """Let the Transformer layers of a model be computed again in the backward pass if the recipe asks for it.

    Raises:
        RecipeError: the model has no Transformer layers.
    """
    if not config.gradient_checkpointing:
        return
    stacks = [module for module in model.modules() if isinstance(module, TransformerStack)]
    if not stacks:
        raise RecipeError("training.gradient_checkpointing = true: this model has no Transformer layers; leave it out")
    for stack in stacks:
        stack.gradient_checkpointing = True


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


_UPDATES, _SECONDS = 10, 10.0
"""The time is estimated after this many updates, or after this many seconds."""
_MIN_REPORTED_SECONDS, _LONG_SECONDS = 30.0, 2 * 3600.0
"""Minimum seconds of training for which an estimate, and a warning, are reported."""
_MAX_EVALUATION_SHARE: Final = 0.9
"""A first evaluation later than this share of the training is not mentioned."""
_SHORTEN_HINT: Final = (
    "training.minutes or training.steps end it earlier; in a new run a smaller training.batch_tokens, or a smaller "
    "model (model.d_model, its layers), makes each update cheaper"
)


def require_memory(run: Run[Any, Any], *, world: DistributedContext) -> None:
    """Raise an error if the weights, gradients and the optimizer's moments do not fit into the memory of this process's
    device, before anything is built.

    Raises:
        ModelTooLargeError: the message names the key that makes it so large.
    """
    config = run.recipe.training
    limit = (
        get_memory_limit()
        if world.device.type == "cpu" or (config.offload and is_sharded(config, world))
        else _get_device_memory(world.device)
    )
    if limit is None:
        return
    with build_without_memory():
        model: nn.Module = build_uninitialized_model(run)
    freeze_parameters(model, config)
    memory = _estimate_memory(config, model, world=world, use_bf16=False, tokens=1, length=1)  # bf16 needs less
    if memory.bytes_without_activations > limit:
        reason = f"training: {find_largest_key(run.recipe, run.vocab_sizes)}"
        raise ModelTooLargeError(
            bytes_=memory.bytes_without_activations, modules=0, max_bytes=float(limit), reason=reason
        )


def _estimate_memory(
    config: TrainingConfig, model: nn.Module, *, world: DistributedContext, use_bf16: bool, tokens: int, length: int
) -> TrainingMemory:
    """Estimate the memory of one process for training on batches of `tokens` tokens, in texts of `length` tokens;
    `use_bf16` says whether the model computes in bf16.
    """
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    state_numbers = _build_optimizer(config, trained, factors={}).count_state_numbers()
    has_average = config.ema is not None
    memory = estimate_training_memory(
        model, state_numbers=state_numbers, use_bf16=use_bf16, has_average=has_average, tokens=tokens, length=length
    )
    return memory.split(world.size) if is_sharded(config, world) else memory


def _get_device_memory(device: torch.device) -> int | None:
    """Return the memory of an accelerator in bytes; None if torch does not report it."""
    return int(torch.cuda.get_device_properties(device).total_memory) if device.type == "cuda" else None


class CostReporter(Callback):
    """Callback that reports what training will cost.

    Args:
        config: the training config.
        model: the model to train.
        log: receives each line of the report.
        world: the processes, with the device of this one.
        useful_labels: labels that are read before models of the task are usually useful; None if unknown.
    """

    def __init__(
        self,
        config: TrainingConfig,
        model: nn.Module,
        *,
        log: Callable[[str], None],
        world: DistributedContext,
        useful_labels: float | None = None,
    ) -> None:
        self._config = config
        self._useful_labels = useful_labels
        self._model = model
        self._log = log
        self._world = world
        self._forecast = TrainingForecast(build_limits(config))
        self._plan_reported = self._time_reported = False
        self._start_seconds = 0.0

    def on_epoch_begin(self, plan: EpochPlan) -> None:
        """Log the numbers of parameters and updates and the memory, once, from the plan of the first epoch."""
        self._forecast = self._forecast.with_plan(plan)
        if self._plan_reported:
            return
        self._plan_reported, self._start_seconds = True, plan.progress.seconds
        config = self._config
        use_bf16 = uses_bf16(config, self._model, self._world.device)
        length = round(config.batch_tokens * plan.batches / max(1, plan.examples))
        memory = _estimate_memory(
            config, self._model, world=self._world, use_bf16=use_bf16, tokens=config.batch_tokens, length=length
        )
        self._log(f"{measure_model(self._model).num_parameters:,} parameters; {describe_memory(memory)}")
        self._log(_describe_updates(plan, config, self._forecast))

    def on_step_end(self, update: StepMetrics) -> None:
        """Measure the time of each update until the training time can be estimated, then log the estimate once."""
        if self._time_reported:
            return
        self._forecast = self._forecast.with_update(update)
        ending = self._forecast.estimate_end()
        if ending is None or (
            self._forecast.num_updates < _UPDATES and update.elapsed - self._start_seconds < _SECONDS
        ):
            return
        self._time_reported = True
        if ending.seconds >= _MIN_REPORTED_SECONDS:
            peak = get_peak_memory(self._world.device)
            so_far = "" if peak is None else f"; memory so far: {format_bytes(peak)}"
            self._log(describe_time(self._forecast, ending) + so_far)
            if warning := describe_short_training(self._forecast, self._useful_labels, seconds=ending.seconds):
                self._log(f"warning: {warning}")
            if ending.seconds >= _LONG_SECONDS and ending.limit != "minutes":
                self._log(f"warning: this training is long; {_SHORTEN_HINT}")

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Add the time of an evaluation to the forecast."""
        self._forecast = self._forecast.with_evaluation(evaluation)


def describe_memory(memory: TrainingMemory) -> str:
    """Describe in a sentence how much memory training needs."""
    known_text = (
        f"training needs {format_bytes(memory.bytes_without_activations)} for weights, gradients and the optimizer's "
        "moments"
    )
    if memory.activations is None:
        return f"{known_text}, without activations"
    return f"{known_text}, and very roughly {format_bytes(memory.activations)} for the activations of a batch"


def describe_time(forecast: TrainingForecast, ending: ExpectedEnd) -> str:
    """Describe how long training will take until the expected end, when the next validation comes, and what may end
    training earlier. `forecast` holds the progress and the limits.
    """
    limits = forecast.limits
    if ending.limit == "minutes":
        of_total = "" if forecast.last_step is None else f" of {forecast.last_step - forecast.step:,}"
        updates_text = "" if ending.updates is None else f", after about {ending.updates:,}{of_total} updates"
        text = f"training.minutes = {limits.minutes:g} ends it in {format_duration(ending.seconds)}{updates_text}"
    else:
        aside = ", without validation" if forecast.evaluation_seconds is None else ""
        text = f"about {format_duration(ending.seconds)} for {ending.updates:,} updates{aside}"
    if forecast.seconds_to_evaluation < _MAX_EVALUATION_SHARE * ending.seconds:
        which = "next" if forecast.step >= forecast.evaluate_every else "first"
        text += f"; {which} validation after about {format_duration(forecast.seconds_to_evaluation)}"
    if limits.patience is not None:
        text += f"; training.patience = {limits.patience} may end it earlier"
    return text


def format_bytes(count: int) -> str:
    """Format `count` bytes in KiB, MiB or GiB."""
    power, unit = next(
        (candidate for candidate in ((3, "GiB"), (2, "MiB")) if count >= 1024 ** candidate[0]), (1, "KiB")
    )
    return f"{count / 1024**power:,.1f} {unit}"


def _describe_updates(plan: EpochPlan, config: TrainingConfig, forecast: TrainingForecast) -> str:
    """Describe how many updates training has, from the plan of an epoch and the forecast, and what limits them."""
    text = f"{plan.updates:,} updates an epoch"
    if forecast.last_step is not None:
        epochs = "" if not plan.updates else f" ({forecast.last_step / plan.updates:,.1f} epochs)"
        text += f", {forecast.last_step:,} in all{epochs}"
    if plan.progress.step:
        text += f", {plan.progress.step:,} of them done"
    if config.minutes is not None:
        text += f"; at most {format_duration(60 * config.minutes)}"
    return text


class TrainingWarnings(Callback):
    """Callback that warns once if validation stops improving, and once if training and validation loss diverge.

    Args:
        config: the training config.
        past: learning curve of earlier sessions of the run.
        log: receives each warning.
    """

    def __init__(self, config: TrainingConfig, *, past: LearningCurve, log: Callable[[str], None]) -> None:
        self._config = config
        self._trend = build_trend(past)
        self._log = log

    def on_step_end(self, update: StepMetrics) -> None:
        """Record the training loss, without label smoothing and other additions."""
        self._trend = self._trend.add_update(update.nll, num_labels=update.labels)

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Record the validation loss of an evaluation, and log a warning about a stall or about overfitting."""
        progress, old_trend = evaluation.progress, self._trend
        if "loss" in evaluation.metrics:
            self._trend = old_trend.add_evaluation(evaluation.metrics["loss"], step=progress.step)
        monitor, overfitting_warning = self._config.monitor, describe_overfitting(old_trend, self._trend)
        if overfitting_warning and evaluation.improved:
            overfitting_warning += f"; {monitor} still improves, and it determines the best checkpoint"
        for warning in filter(
            None, (describe_stall(progress, monitor=monitor, patience=self._config.patience), overfitting_warning)
        ):
            self._log(warning)


def build_trend(curve: LearningCurve) -> LossTrend:
    """Build the trend of losses from a learning curve."""
    points: list[TrainingPoint | ValidationPoint] = [*curve.training, *curve.validation]
    trend = LossTrend()
    for point in sorted(points, key=lambda point: point.step):  # at one step training comes first
        if isinstance(point, TrainingPoint):
            trend = trend.add_update(point.loss)
        else:
            trend = trend.add_evaluation(point.loss, step=point.step)
    return trend
