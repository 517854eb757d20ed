"""Learning rate schedules, as functions of the number of the update."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


class LearningRateSchedule(ABC):
    """Abstract base: a learning rate for each update."""

    @abstractmethod
    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return the learning rate of update `step`, counted from 1.

        Args:
            step: number of the update.
            time_fraction: share of the training time that has passed; 0 where training does not end by the clock.
        """


@dataclass(frozen=True)
class NoamSchedule(LearningRateSchedule):
    """factor d_model^-0.5 min(step^-0.5, step warmup^-1.5) (Vaswani et al. 2017, eq. 3)."""

    d_model: int
    warmup: int
    factor: float = 1.0

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return a rate that rises for `warmup` updates, then falls with the square root of the step."""
        rate: float = self.factor * self.d_model**-0.5 * min(step**-0.5, step * self.warmup**-1.5)
        return rate


@dataclass(frozen=True)
class InverseSquareRootSchedule(LearningRateSchedule):
    """Linear warm-up to `peak`, then peak sqrt(warmup / step): Noam with its peak as parameter."""

    peak: float
    warmup: int

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return a rate that rises for `warmup` updates, then falls with the square root of the step."""
        return self.peak * min(step / self.warmup, math.sqrt(self.warmup / step))


@dataclass(frozen=True)
class CosineSchedule(LearningRateSchedule):
    """Linear warm-up to `peak`, then half a cosine down to `floor` at the last update (Loshchilov & Hutter 2017)."""

    peak: float
    warmup: int
    steps: int
    floor: float = 0.0

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return a rate that rises for `warmup` updates, then falls smoothly, with the time if that runs faster
        than the updates.
        """
        step = max(step, int(time_fraction * self.steps))
        if step <= self.warmup:
            return self.peak * step / self.warmup
        decay_fraction = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        return self.floor + (self.peak - self.floor) * 0.5 * (1 + math.cos(math.pi * decay_fraction))


@dataclass(frozen=True)
class LinearSchedule(LearningRateSchedule):
    """Linear warm-up to `peak`, then a linear decay to 0 at the last update (Devlin et al. 2019, A.2)."""

    peak: float
    warmup: int
    steps: int

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return a rate that rises for `warmup` updates, then falls linearly, with the time if that runs faster
        than the updates.
        """
        step = max(step, int(time_fraction * self.steps))
        if step <= self.warmup:
            return self.peak * step / self.warmup
        return self.peak * max(0.0, (self.steps - step) / max(1, self.steps - self.warmup))


@dataclass(frozen=True)
class TimeBasedSchedule(LearningRateSchedule):
    """Another schedule, driven by the training time instead of the number of updates.

    Attributes:
        schedule: for a training of `TICKS` updates.
        warmup: number of updates of an additional linear warm-up.
    """

    TICKS: ClassVar[int] = 10_000

    schedule: LearningRateSchedule
    warmup: int = 0

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return the rate of the inner schedule at the same share of its updates as of the time."""
        warmup_factor = min(1.0, step / self.warmup) if self.warmup else 1.0
        return warmup_factor * self.schedule.get_rate(min(self.TICKS, 1 + int(time_fraction * self.TICKS)))


@dataclass(frozen=True)
class ConstantSchedule(LearningRateSchedule):
    """Linear warm-up to `peak`, then a constant rate."""

    peak: float
    warmup: int = 0

    def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
        """Return `peak` after the warm-up."""
        return self.peak * min(1.0, step / self.warmup) if self.warmup else self.peak
