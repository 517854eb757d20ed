"""Compute budget by which tasks choose the settings that a recipe leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from heedful.recipes.training import TrainingConfig

Settings: TypeAlias = Mapping[str, Any]
"""Recipe values by dotted key."""

_CORE_EXPONENT: Final = 0.8
"""Exponent of the number of cores in the speed-up of small models."""
_GPU_CORES: Final = 60.0
"""Number of CPU cores that a GPU counts as; small models leave most of it idle."""


@final
@dataclass(frozen=True)
class ComputeBudget:
    """Compute that training may use.

    Derived from core counts, not timings, so that the choice is reproducible.

    Attributes:
        seconds: seconds on one core; None if the clock does not end training.
    """

    seconds: float | None = None

    @classmethod
    def from_config(cls, config: TrainingConfig, *, threads: int, processes: int, gpu: bool) -> ComputeBudget:
        """Convert `training.minutes` to a budget for the given threads and processes."""
        if config.minutes is None:
            return cls()
        cores = _GPU_CORES * processes if gpu else threads * processes
        return cls(60 * config.minutes * cores**_CORE_EXPONENT)
