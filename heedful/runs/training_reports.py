"""Callbacks that report while a run is trained: what it costs, and whether it still has a benefit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import nn

from heedful.memory_limits import get_memory_limit
from heedful.models.model_size import (
    ModelTooLargeError,
    TrainingMemory,
    build_without_memory,
    estimate_training_memory,
    measure_model,
)
from heedful.recipes.recipe import find_largest_key
from heedful.recipes.training import AdamConfig, TrainingConfig
from heedful.runs.adapter_runs import build_uninitialized_model
from heedful.runs.device import get_peak_memory
from heedful.runs.learning_curve import LearningCurve, TrainingPoint, ValidationPoint
from heedful.runs.trainer_factory import build_limits, freeze_parameters, uses_bf16
from heedful.tasks.task import Run
from heedful.training.callbacks import Callback, EpochPlan, StepMetrics, ValidationResult
from heedful.training.eta import ExpectedEnd, TrainingForecast, format_duration
from heedful.training.history import LossTrend, describe_overfitting, describe_stall

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


def require_memory(run: Run[Any, Any], *, device: torch.device) -> None:
    """Raise an error if the weights, gradients and the optimizer's moments do not fit into the memory of `device`,
    before anything is built.

    Raises:
        ModelTooLargeError: the message names the key that makes it so large.
    """
    limit = get_memory_limit() if device.type == "cpu" else _get_device_memory(device)
    if limit is None:
        return
    config = run.recipe.training
    with build_without_memory():
        model: nn.Module = build_uninitialized_model(run)
    freeze_parameters(model, config)
    memory = _estimate_memory(config, model, use_bf16=False, tokens=1, length=1)  # bf16 needs less
    if memory.bytes_without_activations > limit:
        reason = f"training: {find_largest_key(run.recipe, run.vocab_sizes)}"
        raise ModelTooLargeError(
            bytes_=memory.bytes_without_activations, modules=0, max_bytes=float(limit), reason=reason
        )


def _estimate_memory(
    config: TrainingConfig, model: nn.Module, *, use_bf16: bool, tokens: int, length: int
) -> TrainingMemory:
    """Estimate the memory for training on batches of `tokens` tokens, in texts of `length` tokens; `use_bf16` says
    whether the model computes in bf16.
    """
    moments = 2 if isinstance(config.optimizer, AdamConfig) else 0
    has_average = config.ema is not None
    return estimate_training_memory(
        model, moments=moments, use_bf16=use_bf16, has_average=has_average, tokens=tokens, length=length
    )


def _get_device_memory(device: torch.device) -> int | None:
    """Return the memory of an accelerator in bytes; None if torch does not report it."""
    return int(torch.cuda.get_device_properties(device).total_memory) if device.type == "cuda" else None


class CostReporter(Callback):
    """Callback that reports what training will cost.

    Args:
        config: the training config.
        model: the model to train, on its device.
        log: receives each line of the report.
        device: device of the model.
    """

    def __init__(
        self, config: TrainingConfig, model: nn.Module, *, log: Callable[[str], None], device: torch.device
    ) -> None:
        self._config = config
        self._model = model
        self._log = log
        self._device = device
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
        use_bf16 = uses_bf16(config, self._model, self._device)
        length = round(config.batch_tokens * plan.batches / max(1, plan.examples))
        memory = _estimate_memory(config, self._model, use_bf16=use_bf16, tokens=config.batch_tokens, length=length)
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
            peak = get_peak_memory(self._device)
            so_far = "" if peak is None else f"; memory so far: {format_bytes(peak)}"
            self._log(describe_time(self._forecast, ending) + so_far)
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
