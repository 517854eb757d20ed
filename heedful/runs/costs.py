"""What a training will cost, told before its first update, and its time once a few updates have been measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import nn

from heedful.machine import memory_limit
from heedful.models.size import ModelTooLargeError, TrainingMemory, imagined, measure, training_memory
from heedful.recipes.largest import largest_key
from heedful.recipes.training import AdamConfig, TrainingConfig
from heedful.runs.adapted import model_of
from heedful.runs.device import peak_memory
from heedful.runs.loop import freeze, in_half, limits_of
from heedful.tasks.kind import Run
from heedful.training.forecast import Ending, Forecast, duration
from heedful.training.listeners import Evaluation, Listener, Plan, Update

_UPDATES, _SECONDS = 10, 10.0
"""The time is estimated after so many updates, or after so long."""
_WORTH_TELLING, _LONG = 30.0, 2 * 3600.0
"""Seconds from which on a training is long enough for an estimate, and for a warning."""
_BEFORE: Final = 0.9
"""An evaluation that comes later than this share of the training is not announced."""
_SHORTER: Final = (
    "training.minutes or training.steps end it earlier; in a new run a smaller training.batch_tokens, or a smaller "
    "model (model.d_model, its layers), makes each update cheaper"
)


def require_room(run: Run[Any, Any], *, device: torch.device) -> None:
    """Refuses a training whose weights, gradients and moments have no room, before anything of it is built.

    Raises:
        ModelTooLargeError: the message names the key that makes it so large.
    """
    limit = memory_limit() if device.type == "cpu" else _memory_of(device)
    if limit is None:
        return
    config = run.recipe.training
    with imagined():
        model: nn.Module = model_of(run)
    freeze(model, config)
    needs = training_memory(
        model,
        moments=2 if isinstance(config.optimizer, AdamConfig) else 0,
        half=False,  # which needs less
        averaged=config.ema is not None,
        tokens=1,
        length=1,
    )
    if needs.known > limit:
        reason = f"training: {largest_key(run.recipe, run.sizes)}"
        raise ModelTooLargeError(bytes_=needs.known, modules=0, most_bytes=float(limit), reason=reason)


def _memory_of(device: torch.device) -> int | None:
    """Bytes that an accelerator has; None where torch does not say."""
    return int(torch.cuda.get_device_properties(device).total_memory) if device.type == "cuda" else None


class Costs(Listener):
    """Tells what training will cost.

    Args:
        config: of the training.
        model: that learns, on its device.
        say: told in lines.
        device: where it is.
    """

    def __init__(
        self, config: TrainingConfig, model: nn.Module, *, say: Callable[[str], None], device: torch.device
    ) -> None:
        self._config = config
        self._model = model
        self._say = say
        self._device = device
        self._forecast = Forecast(limits_of(config))
        self._planned = self._told = False
        self._begun = 0.0

    def planned(self, plan: Plan) -> None:
        """Parameters, memory and updates, once."""
        self._forecast = self._forecast.planned(plan)
        if self._planned:
            return
        self._planned, self._begun = True, plan.progress.seconds
        config = self._config
        needs = training_memory(
            self._model,
            moments=2 if isinstance(config.optimizer, AdamConfig) else 0,
            half=in_half(config, self._model, self._device),
            averaged=config.ema is not None,
            tokens=config.batch_tokens,
            length=round(config.batch_tokens * plan.batches / max(1, plan.examples)),
        )
        self._say(f"{measure(self._model).parameters:,} parameters; {memory_told(needs)}")
        self._say(_updates_told(plan, config, self._forecast))

    def updated(self, update: Update) -> None:
        """Measures until the time can be estimated."""
        if self._told:
            return
        self._forecast = self._forecast.updated(update)
        ending = self._forecast.ending()
        if ending is None or (self._forecast.seen < _UPDATES and update.elapsed - self._begun < _SECONDS):
            return
        self._told = True
        if ending.seconds >= _WORTH_TELLING:
            peak = peak_memory(self._device)
            so_far = "" if peak is None else f"; memory so far: {size_told(peak)}"
            self._say(time_told(self._forecast, ending) + so_far)
            if ending.seconds >= _LONG and ending.limit != "minutes":
                self._say(f"warning: this training is long; {_SHORTER}")

    def evaluated(self, evaluation: Evaluation) -> None:
        """Measures that too."""
        self._forecast = self._forecast.evaluated(evaluation)


def memory_told(needs: TrainingMemory) -> str:
    """What training needs, in a sentence."""
    known = f"training needs {size_told(needs.known)} for weights, gradients and the optimizer's moments"
    if needs.activations is None:
        return f"{known}, activations aside"
    return f"{known}, and very roughly {size_told(needs.activations)} for the activations of a batch"


def time_told(forecast: Forecast, ending: Ending) -> str:
    """How long it will take, what comes before, and what may end it earlier."""
    limits = forecast.limits
    if ending.limit == "minutes":
        whole = "" if forecast.last is None else f" of {forecast.last - forecast.step:,}"
        made = "" if ending.updates is None else f", after about {ending.updates:,}{whole} updates"
        text = f"training.minutes = {limits.minutes:g} ends it in {duration(ending.seconds)}{made}"
    else:
        aside = ", validation aside" if forecast.pause is None else ""
        text = f"about {duration(ending.seconds)} for {ending.updates:,} updates{aside}"
    if forecast.until_evaluation < _BEFORE * ending.seconds:
        which = "next" if forecast.step >= forecast.evaluate_every else "first"
        text += f"; {which} validation after about {duration(forecast.until_evaluation)}"
    if limits.patience is not None:
        text += f"; training.patience = {limits.patience} may end it earlier"
    return text


def size_told(count: int) -> str:
    """So many bytes, in the unit that suits."""
    power, unit = next((each for each in ((3, "GiB"), (2, "MiB")) if count >= 1024 ** each[0]), (1, "KiB"))
    return f"{count / 1024**power:,.1f} {unit}"


def _updates_told(plan: Plan, config: TrainingConfig, forecast: Forecast) -> str:
    """How many there are, and what ends them."""
    text = f"{plan.updates:,} updates an epoch"
    if forecast.last is not None:
        epochs = "" if not plan.updates else f" ({forecast.last / plan.updates:,.1f} epochs)"
        text += f", {forecast.last:,} in all{epochs}"
    if plan.progress.step:
        text += f", {plan.progress.step:,} of them done"
    if config.minutes is not None:
        text += f"; at most {duration(60 * config.minutes)}"
    return text
