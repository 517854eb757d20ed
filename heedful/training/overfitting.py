"""Whether training still helps: whether validation improves, and whether it follows the training loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from heedful.training.callbacks import TrainState

_STALE_EVALUATIONS: Final = 3
"""Evaluations without a better one from which on validation has stopped improving."""
_RISING_EVALUATIONS: Final = 2
"""Evaluations in a row above the lowest loss that are needed to say that losses part."""
_MIN_CHANGE: Final = 0.01
"""Share of a loss by which another must differ from it to be more than noise."""


@dataclass(frozen=True)
class LossPair:
    """Both losses at an evaluation: training's mean since the one before, and validation's."""

    step: int
    training: float
    validation: float


@dataclass(frozen=True)
class LossTrend:
    """What is known of both losses; each method gives what is known afterwards.

    Attributes:
        lowest: the losses at the evaluation with the lowest validation loss.
        rising: evaluations since then.
        overfitting_at: the losses where they have parted, until the validation loss is lower than ever.
    """

    lowest: LossPair | None = None
    rising: int = 0
    overfitting_at: LossPair | None = None
    _total: float = 0.0
    _labels: float = 0.0

    def add_update(self, nll: float, *, num_labels: float = 1.0) -> LossTrend:
        """After an update, or several of them: the mean of their negative log-likelihood, over so many labels."""
        return replace(self, _total=self._total + nll * num_labels, _labels=self._labels + num_labels)

    def add_evaluation(self, loss: float, *, step: int) -> LossTrend:
        """After an evaluation; one without an update before it tells nothing new."""
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
    """Whether training goes on where validation gets worse."""
    validation_rises = current.validation - lowest.validation > _MIN_CHANGE * abs(lowest.validation)
    training_falls = lowest.training - current.training > _MIN_CHANGE * abs(lowest.training)
    return validation_rises and training_falls


def describe_overfitting(before: LossTrend, after: LossTrend) -> str:
    """What is to be said of an evaluation at which the losses part; empty at all others."""
    lowest, current = after.lowest, after.overfitting_at
    if before.overfitting_at is not None or lowest is None or current is None:
        return ""
    return (
        f"training and validation loss part (overfitting): since step {lowest.step:,} validation has risen from "
        f"{lowest.validation:.3f} to {current.validation:.3f} and training has fallen from {lowest.training:.3f} to "
        f"{current.training:.3f}; more text, more model.dropout or a smaller model help against it"
    )


def describe_stall(state: TrainState, *, monitor: str, patience: int | None) -> str:
    """What is to be said of an evaluation from which on validation no longer improves; empty at all others."""
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
        return f"{text}; after {patience - limit} more without a better one training ends (training.patience)"
    return f"{text}; training ends here (training.patience = {patience})"
