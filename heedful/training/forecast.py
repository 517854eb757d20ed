"""When training will end, from its limits and from what updates and evaluations have taken so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from heedful.training.listeners import Evaluation, Plan, Update
from heedful.training.trainer import Limits

_DECAY: Final = 0.98
"""How long earlier updates last in the means."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


@dataclass(frozen=True)
class Ending:
    """What ends training first, as far as can be told.

    Attributes:
        seconds: until then.
        updates: until then; None where nobody can tell yet.
        limit: the key of `training` that ends it.
    """

    seconds: float
    updates: int | None
    limit: Literal["steps", "epochs", "minutes"]


@dataclass(frozen=True)
class Forecast:
    """What is known of a training that is on its way; each method gives what is known afterwards.

    The first update of a sitting is left out of the means as soon as there is another: it takes longer.

    Attributes:
        limits: when training ends.
        evaluate_every: updates between evaluations, once a plan tells.
        step: updates done.
        last: the update after which `steps` or `epochs` are over; None where neither is known.
        by: which of the two.
        clock: seconds since training began, over all sittings.
        stale: evaluations since the best one.
        seen: updates of this sitting.
        pause: seconds that the last evaluation took with its checkpoint; None before the first.
    """

    limits: Limits
    evaluate_every: int = 1
    step: int = 0
    last: int | None = None
    by: Literal["steps", "epochs"] = "steps"
    clock: float = 0.0
    stale: int = 0
    seen: int = 0
    pause: float | None = None
    _evaluated: bool = False
    _updates: float = 0.0
    _seconds: float = 0.0
    _labels: float = 0.0
    _examples: float = 0.0

    def planned(self, plan: Plan) -> Forecast:
        """Knows how many updates an epoch has; later epochs are taken to have as many."""
        progress, limits = plan.progress, self.limits
        found: list[tuple[int, Literal["steps", "epochs"]]] = []
        if limits.steps is not None:
            found.append((limits.steps, "steps"))
        if limits.epochs is not None:
            left = 0
            if progress.epoch < limits.epochs:
                left = plan.updates - plan.done + (limits.epochs - progress.epoch - 1) * plan.updates
            found.append((max(progress.step + left, limits.min_steps), "epochs"))
        known = replace(self, step=progress.step, stale=progress.stale, evaluate_every=plan.evaluate_every)
        if not self.seen:  # afterwards the clock stands at the last update, where a pause may have begun
            known = replace(known, clock=progress.seconds)
        if not found:
            return known
        last, by = min(found)
        return replace(known, last=last, by=by)

    def updated(self, update: Update) -> Forecast:
        """Knows how long an update takes, and an evaluation that lay before it."""
        keep = _DECAY if self.seen > 1 else 0.0
        pause = self.pause
        if self._evaluated and self.seen:
            pause = max(0.0, update.elapsed - update.seconds - self.clock)
        return replace(
            self,
            step=update.step,
            clock=update.elapsed,
            seen=self.seen + 1,
            pause=pause,
            _evaluated=False,
            _updates=keep * self._updates + 1,
            _seconds=keep * self._seconds + update.seconds,
            _labels=keep * self._labels + update.labels,
            _examples=keep * self._examples + update.examples,
        )

    def evaluated(self, evaluation: Evaluation) -> Forecast:
        """Knows how many evaluations were no better."""
        pause = evaluation.seconds if self.pause is None else self.pause
        return replace(self, stale=evaluation.progress.stale, pause=pause, _evaluated=True)

    @property
    def per_update(self) -> float:
        """Seconds."""
        return self._seconds / max(1.0, self._updates)

    @property
    def labels_per_second(self) -> float:
        """Learned from while updates are made."""
        return self._labels / max(self._seconds, 1e-9)

    @property
    def examples_per_second(self) -> float:
        """Likewise."""
        return self._examples / max(self._seconds, 1e-9)

    @property
    def until_evaluation(self) -> float:
        """Seconds until the next one."""
        return (self.evaluate_every - self.step % self.evaluate_every) * self.per_update

    def ending(self) -> Ending | None:
        """Which limit ends training first; None where that cannot be told yet."""
        if self.seen < 2:
            return None
        found: list[Ending] = []
        if self.last is not None:
            updates = max(0, self.last - self.step)
            pauses = -(-self.last // self.evaluate_every) - self.step // self.evaluate_every if updates else 0
            found.append(Ending(updates * self.per_update + pauses * (self.pause or 0.0), updates, self.by))
        if self.limits.minutes is not None:
            seconds = max(0.0, _MINUTE * self.limits.minutes - self.clock)
            each = self.per_update + (self.pause or 0.0) / self.evaluate_every
            found.append(Ending(seconds, int(seconds / each) if each else None, "minutes"))
        return min(found, key=lambda ending: ending.seconds, default=None)

    def left(self) -> str:
        """The time left in words; empty where it cannot be told yet."""
        ending = self.ending()
        if ending is None:
            return ""
        if self.limits.patience is None:
            return f"{duration(ending.seconds)} left"
        return f"at most {duration(ending.seconds)} left (patience {self.stale}/{self.limits.patience})"


def duration(seconds: float) -> str:
    """A time in words, in hours where it is hours: 40 s, 12 min, 2 h 10 min, 3 days 4 h."""
    if seconds < 1.5 * _MINUTE:
        return f"{seconds:.0f} s"
    minutes = round(seconds / _MINUTE)
    if minutes < 60:
        return f"{minutes} min"
    if seconds < 2 * _DAY:
        return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    hours = round(seconds / _HOUR)
    return f"{hours // 24} days" + (f" {hours % 24} h" if hours % 24 else "")
