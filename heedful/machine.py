"""How much memory the process may take, as the machine, its container and its limits say."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_SWAPS = Path("/proc/meminfo")


@cache
def memory_limit() -> int | None:
    """Bytes that the process can have at most, swap included; None where the system does not say.

    It is the smallest of the machine's memory, the limits of the control groups that the process is in, and the limit
    of its address space. What others take is not subtracted, so what is larger than this cannot fit.
    """
    found = [limit for limit in (_physical(), _address_space(), *_of_groups()) if limit is not None]
    return min(found, default=None)


def _physical() -> int | None:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows, and systems that do not know
        return None
    return total + _swap() if total > 0 else None


def _swap() -> int:
    try:
        lines = _SWAPS.read_text(encoding="ascii", errors="replace").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("SwapTotal:")), 0)
    except (OSError, ValueError, IndexError):
        return 0


def _address_space() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _of_groups() -> list[int]:
    """The limits of the process's control groups, and of those above them: of version 2, and of version 1."""
    try:
        lines = _OWN.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if controllers not in ("", "memory") and "memory" not in controllers.split(","):
            continue
        root = _CGROUPS if not controllers else _CGROUPS / "memory"
        group = root / name.strip("/")
        for each in (group, *group.parents):
            if not each.is_relative_to(root):
                break
            found += _limits(each, old=bool(controllers))
    return found


def _limits(group: Path, *, old: bool) -> list[int]:
    if old:
        both, plain = _number(group / "memory.memsw.limit_in_bytes"), _number(group / "memory.limit_in_bytes")
        limit = both if both is not None else plain
        return [] if limit is None else [limit]
    plain, swap = _number(group / "memory.max"), _number(group / "memory.swap.max")
    if plain is None:
        return []
    return [plain + (_swap() if swap is None else swap)]


def _number(path: Path) -> int | None:
    """What a file of a control group says; None where there is none, or no limit."""
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
