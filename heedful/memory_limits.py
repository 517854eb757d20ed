"""Memory and processor cores that the process can use, from the machine, its container and its limits."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")
_SWAPS = Path("/proc/meminfo")


def count_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def get_memory_limit() -> int | None:
    """Return the largest number of bytes that the process can use, swap included; None if unknown.

    It is the smallest of the machine's memory, the limits of the process's control groups, and the limit of its address
    space. Memory used by other processes is not subtracted, so anything larger than this cannot fit.
    """
    limits = [
        limit
        for limit in (_read_physical_memory(), _read_address_space_limit(), *_read_cgroup_limits())
        if limit is not None
    ]
    return min(limits, default=None)


def _read_physical_memory() -> int | None:
    """Return the machine's memory and swap in bytes; None if unknown."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows, and systems that do not know
        return None
    return total + _read_swap_size() if total > 0 else None


def _read_swap_size() -> int:
    """Return the machine's swap in bytes; 0 if unknown."""
    try:
        lines = _SWAPS.read_text(encoding="ascii", errors="replace").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("SwapTotal:")), 0)
    except (OSError, ValueError, IndexError):
        return 0


def _read_address_space_limit() -> int | None:
    """Return the limit of the address space in bytes; None if there is none."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _read_cgroup_limits() -> list[int]:
    """Return the memory limits of the process's control groups and their parents, versions 1 and 2."""
    try:
        lines = _OWN_CGROUP.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    limits = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if controllers not in ("", "memory") and "memory" not in controllers.split(","):
            continue
        root = _CGROUPS if not controllers else _CGROUPS / "memory"
        group = root / name.strip("/")
        for parent in (group, *group.parents):
            if not parent.is_relative_to(root):
                break
            limits += _read_group_limit(parent, is_version_1=bool(controllers))
    return limits


def _read_group_limit(group: Path, *, is_version_1: bool) -> list[int]:
    """Return the limit of memory and swap of one control group in bytes, as a list; empty if it has none. The files of
    a group have other names in version 1 of control groups than in version 2.
    """
    if is_version_1:
        memory_and_swap, memory = (
            _read_number(group / "memory.memsw.limit_in_bytes"),
            _read_number(group / "memory.limit_in_bytes"),
        )
        limit = memory_and_swap if memory_and_swap is not None else memory
        return [] if limit is None else [limit]
    memory, swap = _read_number(group / "memory.max"), _read_number(group / "memory.swap.max")
    if memory is None:
        return []
    return [memory + (_read_swap_size() if swap is None else swap)]


def _read_number(path: Path) -> int | None:
    """Read a number from a control group file; None if there is no file or no limit."""
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
