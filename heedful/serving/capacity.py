"""Check how many worker processes this machine has cores and memory for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from heedful.errors import RecipeError
from heedful.serving.settings import ServerSettings

_PROCESS_BYTES: Final = 200 << 20
"""Bytes of memory that a process needs besides its models."""
_MAX_PROCESSES_PER_CORE: Final = 4
"""Maximum number of processes for each core; more would only wait for each other."""
_ADVICE: Final = "take fewer, or leave --processes out"


def count_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_total_memory() -> int | None:
    """Return the bytes of memory of this machine, or None if the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def require_capacity(settings: ServerSettings, num_processes: int) -> None:
    """Raise a `RecipeError` if this machine has not enough cores or memory for this number of processes.

    Args:
        settings: with the models that each process loads.
        num_processes: number of processes.

    Raises:
        RecipeError: there are too many.
    """
    max_processes = _MAX_PROCESSES_PER_CORE * count_cores()
    if num_processes > max_processes:
        raise RecipeError(
            f"processes: {num_processes:,} are too many; this machine has {count_cores():,} cores, which allow at most "
            f"{max_processes:,}: {_ADVICE}"
        )
    total_memory = read_total_memory()
    needed = num_processes * (_PROCESS_BYTES + sum(_weights_size(model.run) for model in settings.models.values()))
    if total_memory is not None and needed > total_memory:
        raise RecipeError(
            f"processes: {num_processes:,} need about {needed >> 20:,} MiB, each with all models, and this machine has "
            f"{total_memory >> 20:,} MiB: {_ADVICE}"
        )


def _weights_size(run: Path) -> int:
    """Return the bytes of the largest weights file in a run folder, since a process loads one checkpoint."""
    try:
        return max((file.stat().st_size for file in run.rglob("*.safetensors")), default=0)
    except OSError:
        return 0
