"""The course of a training: a table of its evaluations, and whether they show overfitting or a standstill."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, final

from heedful.training.callbacks import Callback, StepMetrics, TrainState, ValidationResult


@dataclass(frozen=True)
class HistoryPoint:
    """An evaluation, and the training loss since the one before.

    Attributes:
        step: number of updates so far.
        epoch: the current one, from 0.
        seconds: training time so far.
        training_nll: mean nll of a label since the point before, in nats; None before the first update.
        metrics: on the validation set.
        improved: whether the monitored metric is the best so far.
    """

    step: int
    epoch: int
    seconds: float
    training_nll: float | None
    metrics: Mapping[str, float]
    improved: bool


@final
@dataclass(eq=False, repr=False)
class TrainingHistory(Callback):
    """Callback that keeps a point for each evaluation and logs it as a line.

    In a notebook: `heedful.train(recipe, listeners=[TrainingHistory(print)])`.

    Args:
        log: called with each line, such as `print`; None logs nothing.
        log_interval: seconds between log lines from one evaluation to the next.

    Attributes:
        points: in order.
    """

    log: Callable[[str], None] | None = None
    log_interval: float = 20.0
    points: list[HistoryPoint] = field(default_factory=list, init=False)
    _total: float = field(default=0.0, init=False)
    _labels: int = field(default=0, init=False)
    _last_log_time: float | None = field(default=None, init=False)

    def on_step_end(self, update: StepMetrics) -> None:
        """Add the loss of an update to the training loss, and log the mean since the last evaluation at intervals."""
        self._total += update.nll * update.labels
        self._labels += update.labels
        now = time.monotonic()
        if self._last_log_time is None:
            self._last_log_time = now
        elif self.log is not None and now - self._last_log_time >= self.log_interval:
            self._last_log_time = now
            self.log(f"step {update.step}  training {self._total / self._labels:.3f}")

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Add a point for an evaluation, and log it; a star marks the best so far."""
        progress = evaluation.progress
        training = self._total / self._labels if self._labels else None
        self._total, self._labels = 0.0, 0
        metrics = dict(evaluation.metrics)
        self.points.append(
            HistoryPoint(progress.step, progress.epoch, progress.seconds, training, metrics, evaluation.improved)
        )
        if self.log is not None:
            self._last_log_time = time.monotonic()
            numbers = [f"step {progress.step}", *([] if training is None else [f"training {training:.3f}"])]
            metric_text = "  ".join(f"{name} {value:.3f}" for name, value in metrics.items())
            self.log("  ".join([*numbers, f"validation {metric_text}"]) + (" *" if evaluation.improved else ""))

    def __repr__(self) -> str:
        """Return the table of all points as text."""
        header, *rows = self._build_table()
        if not rows:
            return "History of nothing yet"
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = (
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in self._build_table()
        )
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        """Return the table of all points as HTML, for notebooks."""
        header, *rows = self._build_table()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _build_table(self) -> list[list[str]]:
        """Return the table as rows of cells, header first; a star after a step marks the best so far."""
        names = list(self.points[0].metrics) if self.points else []
        table = [["step", "seconds", "training", *(f"validation {name}" for name in names)]]
        for point in self.points:
            training = "" if point.training_nll is None else f"{point.training_nll:.3f}"
            metrics = (f"{point.metrics[name]:.3f}" for name in names)
            step = f"{point.step}{' *' if point.improved else '  '}"
            table.append([step, f"{point.seconds:.1f}", training, *metrics])
        return table


_STALE_EVALUATIONS: Final = 3
"""Number of evaluations without an improvement after which validation has stalled."""
_RISING_EVALUATIONS: Final = 2
"""Number of evaluations in a row above the lowest loss that are needed to report overfitting."""
_MIN_CHANGE: Final = 0.01
"""Relative difference of two losses that is more than noise."""


@dataclass(frozen=True)
class LossPair:
    """Losses at an evaluation: the mean training loss since the one before, and the validation loss."""

    step: int
    training: float
    validation: float


@dataclass(frozen=True)
class LossTrend:
    """Course of both losses; each method returns the updated trend.

    Attributes:
        lowest: the losses at the evaluation with the lowest validation loss.
        rising: number of evaluations since then.
        overfitting_at: the losses at which overfitting was detected; None again once the validation loss is the lowest
            so far.
    """

    lowest: LossPair | None = None
    rising: int = 0
    overfitting_at: LossPair | None = None
    _total: float = 0.0
    _labels: float = 0.0

    def add_update(self, nll: float, *, num_labels: float = 1.0) -> LossTrend:
        """Add the mean negative log-likelihood of one or several updates with this number of labels."""
        return replace(self, _total=self._total + nll * num_labels, _labels=self._labels + num_labels)

    def add_evaluation(self, loss: float, *, step: int) -> LossTrend:
        """Add the validation loss of the evaluation after update `step`; one without an update before it changes
        nothing.
        """
        if not self._labels:
            return self
        current = LossPair(step, self._total / self._labels, loss)
        if self.lowest is None or loss < self.lowest.validation:
            return LossTrend(lowest=current)
        rising = self.rising + 1
        overfitting_at = self.overfitting_at
        if overfitting_at is None and rising >= _RISING_EVALUATIONS and _is_overfitting(self.lowest, current):
            overfitting_at = current
        return LossTrend(self.lowest, rising, overfitting_at)


def _is_overfitting(lowest: LossPair, current: LossPair) -> bool:
    """Return whether from the lowest validation loss to the current evaluation the training loss has fallen and the
    validation loss risen.
    """
    validation_rises = current.validation - lowest.validation > _MIN_CHANGE * abs(lowest.validation)
    training_falls = lowest.training - current.training > _MIN_CHANGE * abs(lowest.training)
    return validation_rises and training_falls


def describe_overfitting(before: LossTrend, after: LossTrend) -> str:
    """Describe the overfitting that an evaluation has detected, from the trends before and after it; return "" if it
    was detected earlier or not at all.
    """
    lowest, current = after.lowest, after.overfitting_at
    if before.overfitting_at is not None or lowest is None or current is None:
        return ""
    return (
        f"training and validation loss diverge (overfitting): since step {lowest.step:,} validation has risen from "
        f"{lowest.validation:.3f} to {current.validation:.3f} and training has fallen from {lowest.training:.3f} to "
        f"{current.training:.3f}; more text, more model.dropout or a smaller model can help"
    )


def describe_stall(state: TrainState, *, monitor: str, patience: int | None) -> str:
    """Describe that the metric `monitor` has stopped improving, at the evaluation at which it has been worse long
    enough; return "" for all others. Training ends after `patience` such evaluations, None for never.
    """
    limit = _STALE_EVALUATIONS if patience is None else min(_STALE_EVALUATIONS, patience)
    if state.stale != limit or state.best is None:
        return ""
    text = (
        f"validation has stopped improving: {monitor} was best {limit} evaluation{'s' * (limit > 1)} ago, "
        f"{state.best:.3f} at step {state.best_step:,}"
    )
    if patience is None:
        return f"{text}; training.patience would end a training that does not improve"
    if patience > limit:
        return f"{text}; after {patience - limit} more without improvement training ends (training.patience)"
    return f"{text}; training ends here (training.patience = {patience})"
