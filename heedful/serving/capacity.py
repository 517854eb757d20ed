"""How many processes that compute this machine has room for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from heedful.errors import RecipeError
from heedful.serving.settings import ServerSettings

_PROCESS_BYTES: Final = 200 << 20
"""Bytes of memory that a process has besides its models."""
_MAX_PROCESSES_PER_CORE: Final = 4
"""Processes for each core, at most; more of them only wait for each other."""
_ADVICE: Final = "take fewer, or leave --processes out"


def count_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_total_memory() -> int | None:
    """Bytes of memory that this machine has; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def require_capacity(settings: ServerSettings, num_processes: int) -> None:
    """Refuse more processes than this machine has cores and memory for.

    Args:
        settings: with the models that each of the processes loads.
        num_processes: of processes.

    Raises:
        RecipeError: they are too many.
    """
    max_processes = _MAX_PROCESSES_PER_CORE * count_cores()
    if num_processes > max_processes:
        raise RecipeError(
            f"processes: {num_processes:,} are too many; this machine has {count_cores():,} cores, for which {max_processes:,} at most are "
            f"begun: {_ADVICE}"
        )
    total_memory = read_total_memory()
    needed = num_processes * (_PROCESS_BYTES + sum(_weights_size(model.run) for model in settings.models.values()))
    if total_memory is not None and needed > total_memory:
        raise RecipeError(
            f"processes: {num_processes:,} need about {needed >> 20:,} MiB, each with all models, and this machine has "
            f"{total_memory >> 20:,} MiB: {_ADVICE}"
        )


def _weights_size(run: Path) -> int:
    """Bytes of the largest file of weights in a run folder, of which a process holds those of one checkpoint."""
    try:
        return max((file.stat().st_size for file in run.rglob("*.safetensors")), default=0)
    except OSError:
        return 0
