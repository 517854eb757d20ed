"""What a task may spend where it chooses by itself what a recipe leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from heedful.recipes.training import TrainingConfig

Settings: TypeAlias = Mapping[str, Any]
"""Values by their dotted keys, as a recipe has them."""

_CORE_EXPONENT: Final = 0.8
"""The power of their number with which threads and processes help small models."""
_GPU_CORES: Final = 60.0
"""Cores that a GPU is taken for; small models leave most of it idle."""


@final
@dataclass(frozen=True)
class ComputeBudget:
    """What a training may take.

    They are counted, never measured: a machine that is busy today gets the same model tomorrow.

    Attributes:
        seconds: on the clock, of one core; None where the clock does not end training.
    """

    seconds: float | None = None

    @classmethod
    def from_config(cls, config: TrainingConfig, *, threads: int, processes: int, gpu: bool) -> ComputeBudget:
        """What `training.minutes` means for so many threads in each of so many processes."""
        if config.minutes is None:
            return cls()
        cores = _GPU_CORES * processes if gpu else threads * processes
        return cls(60 * config.minutes * cores**_CORE_EXPONENT)
