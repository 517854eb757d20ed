"""Training callbacks, checkpoint savers, and the data that they receive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor, nn

from heedful.errors import RunError, TrainingError


@dataclass(frozen=True)
class TrainState:
    """State of training; with weights and moments, all that is needed to continue.

    Data order and dropout are functions of seed, epoch and step, so no state of a random generator is stored.

    Attributes:
        step: number of updates.
        epoch: the current epoch, from 0.
        position: number of its batches that are done.
        labels: number of labels seen.
        seconds: training time with evaluations and checkpoints, over all sessions.
        best: the best value of the monitored metric.
        best_step: the step of that value.
        stale: number of evaluations since then.
        evaluated: the step of the last evaluation; an interruption may come between an update and its evaluation.
        reductions: how often the schedule has reduced the learning rate because of evaluations without improvement.
    """

    step: int = 0
    epoch: int = 0
    position: int = 0
    labels: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int | None = None
    stale: int = 0
    evaluated: int = 0
    reductions: int = 0


@dataclass(frozen=True)
class TrainingSnapshot:
    """Everything that another process needs to go on with training.

    Attributes:
        weights: the model as it is to be used, fp32: the running average if there is one.
        training: tensors that only training needs: moments, and the masters where they differ from the weights.
        progress: state of training.
        callback_state: state of the callbacks, as JSON values.
        file_names: names of the files that weights and training tensors were read from, for messages.
    """

    weights: Mapping[str, Tensor]
    training: Mapping[str, Tensor]
    progress: TrainState
    callback_state: Mapping[str, Any] = field(default_factory=dict)
    file_names: tuple[str, str] = ("weights", "training")


@dataclass(frozen=True)
class LossSum:
    """A sum of losses, and the number of labels it is over."""

    total: float
    count: float

    @property
    def mean(self) -> float:
        """Mean loss per label."""
        return self.total / self.count


@dataclass(frozen=True)
class StepMetrics:
    """Metrics of one update: loss and nll per label in nats, number of labels, and seconds.

    Attributes:
        task: name of the task it was for; empty where there is only one.
        parts: all parts of the loss that have labels, `nll` among them.
        examples: number of examples, in all processes.
        elapsed: seconds from the beginning of training to the end of the update, as in `TrainState.seconds`.
    """

    step: int
    epoch: int
    loss: float
    nll: float
    rate: float
    gradient_norm: float
    labels: int
    seconds: float
    task: str = ""
    parts: Mapping[str, LossSum] = field(default_factory=dict)
    examples: int = 0
    elapsed: float = 0.0

    @property
    def extra_losses(self) -> Mapping[str, LossSum]:
        """The other parts of the loss by log name: `task/part` if there are several tasks, else all but `nll`."""
        if self.task:
            return {f"{self.task}/{name}": part for name, part in self.parts.items()}
        return {name: part for name, part in self.parts.items() if name != "nll"}


@dataclass(frozen=True)
class EpochPlan:
    """Size of an epoch, known before its first update or where a run continues in it.

    Attributes:
        progress: state of training.
        updates: number of updates of the whole epoch.
        done: how many of them are done.
        batches: number of batches of the whole epoch.
        examples: number of examples in them.
        evaluate_every: updates between evaluations.
    """

    progress: TrainState
    updates: int
    done: int
    batches: int
    examples: int
    evaluate_every: int


@dataclass(frozen=True)
class ValidationResult:
    """Metrics on the validation set after an update, and whether they are the best so far."""

    progress: TrainState
    metrics: Mapping[str, float]
    improved: bool
    seconds: float = 0.0


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint that was saved: the progress in it, and the seconds that saving took."""

    progress: TrainState
    seconds: float


class Callback(ABC):
    """Abstract base of callbacks, which are called for updates, evaluations and checkpoints and must not change the
    model.
    """

    def on_epoch_begin(self, plan: EpochPlan) -> None:
        """Handle the beginning of an epoch, also of one in which a run is resumed."""
        return

    @abstractmethod
    def on_step_end(self, update: StepMetrics) -> None:
        """Handle the end of an update."""

    @abstractmethod
    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Handle the metrics of an evaluation."""

    def on_save(self, checkpoint: SavedCheckpoint) -> None:
        """Handle a checkpoint that was saved."""
        return

    def get_state(self) -> Mapping[str, Any]:
        """Return what the callback must store to continue later: JSON values, under names of its own."""
        return {}


class CheckpointSaver(ABC):
    """Abstract base of objects that save training snapshots."""

    @abstractmethod
    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None:
        """Save a snapshot; `evaluation` is its evaluation, or None if training was interrupted."""


@dataclass(frozen=True)
class CallbackList(Callback):
    """Several callbacks as one, called in order."""

    callbacks: Sequence[Callback] = field(default_factory=tuple)

    def on_epoch_begin(self, plan: EpochPlan) -> None:
        """Call all callbacks in order."""
        for callback in self.callbacks:
            callback.on_epoch_begin(plan)

    def on_step_end(self, update: StepMetrics) -> None:
        """Call all callbacks in order."""
        for callback in self.callbacks:
            callback.on_step_end(update)

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Call all callbacks in order."""
        for callback in self.callbacks:
            callback.on_evaluate(evaluation)

    def on_save(self, checkpoint: SavedCheckpoint) -> None:
        """Call all callbacks in order."""
        for callback in self.callbacks:
            callback.on_save(checkpoint)

    def get_state(self) -> Mapping[str, Any]:
        """Return the merged states of all callbacks."""
        return {name: value for callback in self.callbacks for name, value in callback.get_state().items()}


@final
class NullCheckpointSaver(CheckpointSaver):
    """Checkpoint saver that stores nothing, for models that are used at once."""

    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None:
        """Do nothing."""


@final
class BestWeightsSaver(CheckpointSaver):
    """Checkpoint saver that keeps the best weights on the validation set in CPU memory.

    Attributes:
        step: the update after which they were measured; None before the first evaluation.
        weights: fp32, by name.
    """

    def __init__(self) -> None:
        self.step: int | None = None
        self.weights: Mapping[str, Tensor] = {}

    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None:
        """Copy the weights of a snapshot if its evaluation is the best so far."""
        if evaluation is not None and evaluation.improved:
            self.step = snapshot.progress.step
            self.weights = {name: weight.detach().to("cpu", copy=True) for name, weight in snapshot.weights.items()}

    def load_into(self, model: nn.Module) -> None:
        """Copy the best weights into the model.

        Raises:
            TrainingError: nothing was saved yet.
        """
        if self.step is None:
            raise TrainingError("no weights were kept yet; train first")
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(self.weights[name])

    def __repr__(self) -> str:
        return "BestWeightsSaver(nothing yet)" if self.step is None else f"BestWeightsSaver(of step {self.step})"


_REMEDY = "restore it from a copy or train again"


def require_same_tensors(
    tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], *, location: str, prefix: str = ""
) -> None:
    """Raise `RunError` unless `tensors`, which were read from the file `location`, have the same names, shapes and
    dtypes as `expected`. `prefix` stands before the names in that file.

    Kernels rely on it: a moment of another shape than its parameter would be written beyond its end.

    Args:
        tensors: the tensors that were read.
        expected: the tensors that they are for.
        location: the file, for messages.
        prefix: of the names in that file.

    Raises:
        RunError: names the file, the tensor, and both shapes and dtypes.
    """
    for name in expected:
        if name not in tensors:
            raise RunError(f"{location}: has no {prefix}{name}, which this run needs; {_REMEDY}")
    for name, tensor in tensors.items():
        if name not in expected:
            raise RunError(f"{location}: {prefix}{name} is not part of this run; {_REMEDY}")
        if (tensor.shape, tensor.dtype) != (expected[name].shape, expected[name].dtype):
            raise RunError(
                f"{location}: {prefix}{name} is {_describe_tensor(tensor)}, this run needs "
                f"{_describe_tensor(expected[name])}; {_REMEDY}"
            )


def _describe_tensor(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
