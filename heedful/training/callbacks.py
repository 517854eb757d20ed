"""Those who want to know how training goes, and the one who keeps what it made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class TrainState:
    """How far training is; with the weights and moments, all there is to know for going on.

    Data order and dropout are functions of seed, epoch and step, so no generator's state is kept.

    Attributes:
        step: updates done.
        epoch: the running epoch, from 0.
        position: batches of it that are done.
        labels: labels learned from.
        seconds: spent in training, evaluation and saving included, over all sittings.
        best: the best value of the monitored metric, and its step.
        stale: evaluations since then.
        evaluated: the step of the last evaluation; an interruption may come between an update and its evaluation.
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


@dataclass(frozen=True)
class TrainingSnapshot:
    """Everything a later process needs.

    Attributes:
        weights: the model as it is to be used, fp32: the running average where there is one.
        training: what only training needs: moments, and the masters where they differ from the weights.
        progress: how far it is.
        callback_state: what listeners have heard and not told yet, as JSON can hold it.
        file_names: the files that weights and training were read from, for whoever must complain.
    """

    weights: Mapping[str, Tensor]
    training: Mapping[str, Tensor]
    progress: TrainState
    callback_state: Mapping[str, Any] = field(default_factory=dict)
    file_names: tuple[str, str] = ("weights", "training")


@dataclass(frozen=True)
class LossSum:
    """What some losses add up to, and over how many labels."""

    total: float
    count: float

    @property
    def mean(self) -> float:
        """Per label."""
        return self.total / self.count


@dataclass(frozen=True)
class StepMetrics:
    """One update: loss (what is minimised) and nll per label in nats, labels seen, seconds taken.

    Attributes:
        task: which of several it learned from; empty where there is one.
        parts: all parts of its loss that something was counted for, `nll` among them.
        examples: that it learned from, in all processes.
        elapsed: seconds since training began when it was done, as in `TrainState.seconds`.
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
        """The parts as a log names them: `task/part` where there are several tasks; else those that `nll` is not."""
        if self.task:
            return {f"{self.task}/{name}": part for name, part in self.parts.items()}
        return {name: part for name, part in self.parts.items() if name != "nll"}


@dataclass(frozen=True)
class EpochPlan:
    """What an epoch holds, known before its first update, or before the one that a run goes on with.

    Attributes:
        progress: how far training is.
        updates: those of the whole epoch.
        done: those of it that are behind.
        batches: that the whole epoch consists of.
        examples: that they hold.
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
    """Metrics on the validation set after an update; whether they are the best so far."""

    progress: TrainState
    metrics: Mapping[str, float]
    improved: bool
    seconds: float = 0.0


class Callback(ABC):
    """Told about each update and evaluation; must not change the model."""

    def on_epoch_begin(self, plan: EpochPlan) -> None:
        """Before the first update of each epoch, and where a run goes on in one."""
        return

    @abstractmethod
    def on_step_end(self, update: StepMetrics) -> None:
        """After each update."""

    @abstractmethod
    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """After each evaluation."""

    def get_state(self) -> Mapping[str, Any]:
        """What it has heard and will tell later, for whoever goes on: JSON values, by names of its own."""
        return {}


class CheckpointSaver(ABC):
    """Puts snapshots where they survive the process."""

    @abstractmethod
    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None:
        """Keeps a snapshot; an evaluation belongs to it unless training was interrupted."""


@dataclass(frozen=True)
class CallbackList(Callback):
    """Several listeners as one."""

    callbacks: Sequence[Callback] = field(default_factory=tuple)

    def on_epoch_begin(self, plan: EpochPlan) -> None:
        """Tells them in order."""
        for callback in self.callbacks:
            callback.on_epoch_begin(plan)

    def on_step_end(self, update: StepMetrics) -> None:
        """Tells them in order."""
        for callback in self.callbacks:
            callback.on_step_end(update)

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Tells them in order."""
        for callback in self.callbacks:
            callback.on_evaluate(evaluation)

    def get_state(self) -> Mapping[str, Any]:
        """That of all."""
        return {name: value for callback in self.callbacks for name, value in callback.get_state().items()}
