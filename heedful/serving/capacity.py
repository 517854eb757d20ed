"""How many processes that compute this machine has room for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from heedful.errors import RecipeError
from heedful.serving.settings import Settings

_EACH: Final = 200 << 20
"""Bytes of memory that a process has besides its models."""
_A_CORE: Final = 4
"""Processes for each core, at most; more of them only wait for each other."""
_ADVICE: Final = "take fewer, or leave --processes out"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int | None:
    """Bytes of memory that this machine has; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def require_room(settings: Settings, number: int) -> None:
    """Refuse more processes than this machine has cores and memory for.

    Args:
        settings: with the models that each of the processes loads.
        number: of processes.

    Raises:
        RecipeError: they are too many.
    """
    most = _A_CORE * cores()
    if number > most:
        raise RecipeError(
            f"processes: {number:,} are too many; this machine has {cores():,} cores, for which {most:,} at most are "
            f"begun: {_ADVICE}"
        )
    held = memory()
    needed = number * (_EACH + sum(_size(model.run) for model in settings.models.values()))
    if held is not None and needed > held:
        raise RecipeError(
            f"processes: {number:,} need about {needed >> 20:,} MiB, each with all models, and this machine has "
            f"{held >> 20:,} MiB: {_ADVICE}"
        )


def _size(run: Path) -> int:
    """Bytes of the largest file of weights in a run folder, of which a process holds those of one checkpoint."""
    try:
        return max((each.stat().st_size for each in run.rglob("*.safetensors")), default=0)
    except OSError:
        return 0
