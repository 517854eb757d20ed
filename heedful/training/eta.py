"""Estimate when training will end, from its limits and the time of past updates and evaluations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from heedful.training.callbacks import EpochPlan, StepMetrics, ValidationResult
from heedful.training.trainer import StoppingLimits

_DECAY: Final = 0.98
"""Decay of the running means."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


@dataclass(frozen=True)
class ExpectedEnd:
    """The limit that is expected to end training first.

    Attributes:
        seconds: time left.
        updates: updates left; None if that is not known yet.
        limit: the key of `training` that sets the limit.
    """

    seconds: float
    updates: int | None
    limit: Literal["steps", "epochs", "minutes"]


@dataclass(frozen=True)
class TrainingForecast:
    """Estimate of the end of training; each method returns the updated estimate.

    The first update of a session is left out of the means as soon as there is another one, because it takes longer.

    Attributes:
        limits: when training ends.
        evaluate_every: updates between evaluations, known from the epoch plan.
        step: number of updates.
        last_step: the update at which `steps` or `epochs` is reached; None if neither is known.
        last_limit: which of the two.
        elapsed: seconds since training began, over all sessions.
        stale: number of evaluations since the best one.
        num_updates: number of updates of this session.
        evaluation_seconds: seconds of the last evaluation with its checkpoint; None before the first.
    """

    limits: StoppingLimits
    evaluate_every: int = 1
    step: int = 0
    last_step: int | None = None
    last_limit: Literal["steps", "epochs"] = "steps"
    elapsed: float = 0.0
    stale: int = 0
    num_updates: int = 0
    evaluation_seconds: float | None = None
    _evaluated: bool = False
    _updates: float = 0.0
    _seconds: float = 0.0
    _labels: float = 0.0
    _examples: float = 0.0

    def with_plan(self, plan: EpochPlan) -> TrainingForecast:
        """Add the number of updates of an epoch from its plan; later epochs are assumed to have the same."""
        progress, limits = plan.progress, self.limits
        ends: list[tuple[int, Literal["steps", "epochs"]]] = []
        if limits.steps is not None:
            ends.append((limits.steps, "steps"))
        if limits.epochs is not None:
            updates_left = 0
            if progress.epoch < limits.epochs:
                updates_left = plan.updates - plan.done + (limits.epochs - progress.epoch - 1) * plan.updates
            ends.append((max(progress.step + updates_left, limits.min_steps), "epochs"))
        forecast = replace(self, step=progress.step, stale=progress.stale, evaluate_every=plan.evaluate_every)
        if not self.num_updates:  # afterwards the clock is at the last update, when a pause may have begun
            forecast = replace(forecast, elapsed=progress.seconds)
        if not ends:
            return forecast
        last_step, last_limit = min(ends)
        return replace(forecast, last_step=last_step, last_limit=last_limit)

    def with_update(self, update: StepMetrics) -> TrainingForecast:
        """Add the duration of an update, and of an evaluation before it."""
        decay = _DECAY if self.num_updates > 1 else 0.0
        evaluation_seconds = self.evaluation_seconds
        if self._evaluated and self.num_updates:
            evaluation_seconds = max(0.0, update.elapsed - update.seconds - self.elapsed)
        return replace(
            self,
            step=update.step,
            elapsed=update.elapsed,
            num_updates=self.num_updates + 1,
            evaluation_seconds=evaluation_seconds,
            _evaluated=False,
            _updates=decay * self._updates + 1,
            _seconds=decay * self._seconds + update.seconds,
            _labels=decay * self._labels + update.labels,
            _examples=decay * self._examples + update.examples,
        )

    def with_evaluation(self, evaluation: ValidationResult) -> TrainingForecast:
        """Add an evaluation: its duration and the number of evaluations without improvement."""
        evaluation_seconds = evaluation.seconds if self.evaluation_seconds is None else self.evaluation_seconds
        return replace(self, stale=evaluation.progress.stale, evaluation_seconds=evaluation_seconds, _evaluated=True)

    @property
    def seconds_per_update(self) -> float:
        """Mean seconds of an update."""
        return self._seconds / max(1.0, self._updates)

    @property
    def labels_per_second(self) -> float:
        """Labels per second of update time."""
        return self._labels / max(self._seconds, 1e-9)

    @property
    def examples_per_second(self) -> float:
        """Examples per second of update time."""
        return self._examples / max(self._seconds, 1e-9)

    @property
    def seconds_to_evaluation(self) -> float:
        """Seconds until the next evaluation."""
        return (self.evaluate_every - self.step % self.evaluate_every) * self.seconds_per_update

    def estimate_end(self) -> ExpectedEnd | None:
        """Return the limit that ends training first; None if that cannot be estimated yet."""
        if self.num_updates < 2:
            return None
        ends: list[ExpectedEnd] = []
        if self.last_step is not None:
            updates = max(0, self.last_step - self.step)
            num_evaluations = (
                -(-self.last_step // self.evaluate_every) - self.step // self.evaluate_every if updates else 0
            )
            ends.append(
                ExpectedEnd(
                    updates * self.seconds_per_update + num_evaluations * (self.evaluation_seconds or 0.0),
                    updates,
                    self.last_limit,
                )
            )
        if self.limits.minutes is not None:
            seconds = max(0.0, _MINUTE * self.limits.minutes - self.elapsed)
            seconds_per_step = self.seconds_per_update + (self.evaluation_seconds or 0.0) / self.evaluate_every
            ends.append(ExpectedEnd(seconds, int(seconds / seconds_per_step) if seconds_per_step else None, "minutes"))
        return min(ends, key=lambda end: end.seconds, default=None)

    def format_time_left(self) -> str:
        """Return the time left as text; empty if it cannot be estimated yet."""
        end = self.estimate_end()
        if end is None:
            return ""
        if self.limits.patience is None:
            return f"{format_duration(end.seconds)} left"
        return f"at most {format_duration(end.seconds)} left (patience {self.stale}/{self.limits.patience})"


def format_duration(seconds: float) -> str:
    """Format a number of seconds with suitable units: 40 s, 12 min, 2 h 10 min, 3 days 4 h."""
    if seconds < 1.5 * _MINUTE:
        return f"{seconds:.0f} s"
    minutes = round(seconds / _MINUTE)
    if minutes < 60:
        return f"{minutes} min"
    if seconds < 2 * _DAY:
        return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    hours = round(seconds / _HOUR)
    return f"{hours // 24} days" + (f" {hours % 24} h" if hours % 24 else "")
