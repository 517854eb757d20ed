"""A word while training runs, where it no longer helps."""

from __future__ import annotations

from collections.abc import Callable

from heedful.recipes.training import TrainingConfig
from heedful.runs.learning_curve import Learned, LearningCurve, Validated
from heedful.training.listeners import Evaluation, Listener, Update
from heedful.training.trend import Trend, overfitting, stalled


class Remarks(Listener):
    """Says once when validation stops improving, and once when training and validation loss part.

    Args:
        config: of the training.
        past: what earlier sittings have measured.
        say: told in a line.
    """

    def __init__(self, config: TrainingConfig, *, past: LearningCurve, say: Callable[[str], None]) -> None:
        self._config = config
        self._trend = trend_of(past)
        self._say = say

    def updated(self, update: Update) -> None:
        """Notes the training loss, without label smoothing and the like."""
        self._trend = self._trend.learned(update.nll, labels=update.labels)

    def evaluated(self, evaluation: Evaluation) -> None:
        """Says what there is to say."""
        progress, before = evaluation.progress, self._trend
        if "loss" in evaluation.metrics:
            self._trend = before.validated(evaluation.metrics["loss"], step=progress.step)
        monitor, parted = self._config.monitor, overfitting(before, self._trend)
        if parted and evaluation.improved:
            parted += f"; {monitor} gets better all the same, and it is what finds the best checkpoint"
        for text in filter(None, (stalled(progress, monitor=monitor, patience=self._config.patience), parted)):
            self._say(text)


def trend_of(curve: LearningCurve) -> Trend:
    """What a learning curve says so far."""
    points: list[Learned | Validated] = [*curve.training, *curve.validation]
    trend = Trend()
    for point in sorted(points, key=lambda point: point.step):  # at one step training comes first
        if isinstance(point, Learned):
            trend = trend.learned(point.loss)
        else:
            trend = trend.validated(point.loss, step=point.step)
    return trend
