"""Detect overfitting and stalled validation from the losses of training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from heedful.training.callbacks import TrainState

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
        """Add an evaluation; one without an update before it changes nothing."""
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
    """Return whether the training loss falls while the validation loss rises."""
    validation_rises = current.validation - lowest.validation > _MIN_CHANGE * abs(lowest.validation)
    training_falls = lowest.training - current.training > _MIN_CHANGE * abs(lowest.training)
    return validation_rises and training_falls


def describe_overfitting(before: LossTrend, after: LossTrend) -> str:
    """Describe the evaluation at which overfitting was detected; return "" for all others."""
    lowest, current = after.lowest, after.overfitting_at
    if before.overfitting_at is not None or lowest is None or current is None:
        return ""
    return (
        f"training and validation loss diverge (overfitting): since step {lowest.step:,} validation has risen from "
        f"{lowest.validation:.3f} to {current.validation:.3f} and training has fallen from {lowest.training:.3f} to "
        f"{current.training:.3f}; more text, more model.dropout or a smaller model can help"
    )


def describe_stall(state: TrainState, *, monitor: str, patience: int | None) -> str:
    """Describe the evaluation at which validation has stopped improving; return "" for all others."""
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
