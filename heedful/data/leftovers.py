"""What killed processes left beside what they were writing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def left_behind(path: Path) -> Iterator[Path]:
    """What killed processes were writing beside a file or folder, each under its own number; and what this one was."""
    for found in path.parent.glob(f".{path.name}.*"):
        number = found.name.removeprefix(f".{path.name}.").removesuffix(".old")
        if number.isdecimal() and (int(number) == os.getpid() or not _lives(int(number))):
            yield found


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True
