"""Warnings while training runs without further benefit."""

from __future__ import annotations

from collections.abc import Callable

from heedful.recipes.training import TrainingConfig
from heedful.runs.learning_curve import LearningCurve, TrainingPoint, ValidationPoint
from heedful.training.callbacks import Callback, StepMetrics, ValidationResult
from heedful.training.overfitting import LossTrend, describe_overfitting, describe_stall


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
        """Record the validation loss and log any warning."""
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
