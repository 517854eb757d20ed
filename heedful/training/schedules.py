"""Learning rates as functions of the update, counted from 1."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


class LearningRateSchedule(ABC):
    """A learning rate for each update."""

    @abstractmethod
    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """The learning rate of update `step`, counted from 1.

        Args:
            step: which update it is.
            time_fraction: share of the time for training that is over before it; 0 where training does not end by the clock.
        """


@dataclass(frozen=True)
class NoamSchedule(LearningRateSchedule):
    """factor d_model^-0.5 min(step^-0.5, step warmup^-1.5) (Vaswani et al. 2017, eq. 3)."""

    d_model: int
    warmup: int
    factor: float = 1.0

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Rises for `warmup` updates, then falls with the root of the step."""
        rate: float = self.factor * self.d_model**-0.5 * min(step**-0.5, step * self.warmup**-1.5)
        return rate


@dataclass(frozen=True)
class InverseSquareRootSchedule(LearningRateSchedule):
    """A linear warm-up to `peak`, then peak sqrt(warmup / step): Noam with the peak as its dial."""

    peak: float
    warmup: int

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Rises for `warmup` updates, then falls with the root of the step."""
        return self.peak * min(step / self.warmup, math.sqrt(self.warmup / step))


@dataclass(frozen=True)
class CosineSchedule(LearningRateSchedule):
    """A linear warm-up to `peak`, then half a cosine down to `floor` at the last update (Loshchilov & Hutter 2017)."""

    peak: float
    warmup: int
    steps: int
    floor: float = 0.0

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Rises for `warmup` updates, then falls smoothly; where time runs faster than updates, with the time."""
        step = max(step, int(time_fraction * self.steps))
        if step <= self.warmup:
            return self.peak * step / self.warmup
        decay_fraction = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        return self.floor + (self.peak - self.floor) * 0.5 * (1 + math.cos(math.pi * decay_fraction))


@dataclass(frozen=True)
class LinearSchedule(LearningRateSchedule):
    """A linear warm-up to `peak`, then a straight line to nothing at the last update (Devlin et al. 2019, A.2)."""

    peak: float
    warmup: int
    steps: int

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Rises for `warmup` updates, then falls evenly; where time runs faster than updates, with the time."""
        step = max(step, int(time_fraction * self.steps))
        if step <= self.warmup:
            return self.peak * step / self.warmup
        return self.peak * max(0.0, (self.steps - step) / max(1, self.steps - self.warmup))


@dataclass(frozen=True)
class TimeBasedSchedule(LearningRateSchedule):
    """Another schedule for training that ends by the clock: it goes with the time instead of the updates.

    Attributes:
        schedule: of a training of `TICKS` updates.
        warmup: updates until the rate is what that schedule says, while it rises evenly.
    """

    TICKS: ClassVar[int] = 10_000

    schedule: LearningRateSchedule
    warmup: int = 0

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """What the schedule says when as much of its updates is over as of the time."""
        warmup_factor = min(1.0, step / self.warmup) if self.warmup else 1.0
        return warmup_factor * self.schedule.get_rate(min(self.TICKS, 1 + int(time_fraction * self.TICKS)))


@dataclass(frozen=True)
class ConstantSchedule(LearningRateSchedule):
    """A linear warm-up to `peak`, which then stays."""

    peak: float
    warmup: int = 0

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """The peak, after the warm-up."""
        return self.peak * min(1.0, step / self.warmup) if self.warmup else self.peak
