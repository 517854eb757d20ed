"""Whether training still helps: whether validation improves, and whether it follows the training loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from heedful.training.listeners import Progress

_STALE: Final = 3
"""Evaluations without a better one from which on validation has stopped improving."""
_RISING: Final = 2
"""Evaluations in a row above the lowest loss that are needed to say that losses part."""
_CLEARLY: Final = 0.01
"""Share of a loss by which another must differ from it to be more than noise."""


@dataclass(frozen=True)
class Losses:
    """Both losses at an evaluation: training's mean since the one before, and validation's."""

    step: int
    training: float
    validation: float


@dataclass(frozen=True)
class Trend:
    """What is known of both losses; each method gives what is known afterwards.

    Attributes:
        lowest: the losses at the evaluation with the lowest validation loss.
        rising: evaluations since then.
        parted: the losses where they have parted, until the validation loss is lower than ever.
    """

    lowest: Losses | None = None
    rising: int = 0
    parted: Losses | None = None
    _total: float = 0.0
    _labels: float = 0.0

    def learned(self, nll: float, *, labels: float = 1.0) -> Trend:
        """After an update, or several of them: the mean of their negative log-likelihood, over so many labels."""
        return replace(self, _total=self._total + nll * labels, _labels=self._labels + labels)

    def validated(self, loss: float, *, step: int) -> Trend:
        """After an evaluation; one without an update before it tells nothing new."""
        if not self._labels:
            return self
        now = Losses(step, self._total / self._labels, loss)
        if self.lowest is None or loss < self.lowest.validation:
            return Trend(lowest=now)
        rising = self.rising + 1
        parted = self.parted
        if parted is None and rising >= _RISING and _apart(self.lowest, now):
            parted = now
        return Trend(self.lowest, rising, parted)


def _apart(lowest: Losses, now: Losses) -> bool:
    """Whether training goes on where validation gets worse."""
    risen = now.validation - lowest.validation > _CLEARLY * abs(lowest.validation)
    fallen = lowest.training - now.training > _CLEARLY * abs(lowest.training)
    return risen and fallen


def overfitting(before: Trend, after: Trend) -> str:
    """What is to be said of an evaluation at which the losses part; empty at all others."""
    low, now = after.lowest, after.parted
    if before.parted is not None or low is None or now is None:
        return ""
    return (
        f"training and validation loss part (overfitting): since step {low.step:,} validation has risen from "
        f"{low.validation:.3f} to {now.validation:.3f} and training has fallen from {low.training:.3f} to "
        f"{now.training:.3f}; more text, more model.dropout or a smaller model help against it"
    )


def stalled(progress: Progress, *, monitor: str, patience: int | None) -> str:
    """What is to be said of an evaluation from which on validation no longer improves; empty at all others."""
    begins = _STALE if patience is None else min(_STALE, patience)
    if progress.stale != begins or progress.best is None:
        return ""
    text = (
        f"validation has stopped improving: {monitor} was best {begins} evaluation{'s' * (begins > 1)} ago, "
        f"{progress.best:.3f} at step {progress.best_step:,}"
    )
    if patience is None:
        return f"{text}; training.patience would end a training that does not improve"
    if patience > begins:
        return f"{text}; after {patience - begins} more without a better one training ends (training.patience)"
    return f"{text}; training ends here (training.patience = {patience})"
