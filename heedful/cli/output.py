"""Where a command's results go."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from heedful.errors import DataError


@contextmanager
def destination(path: Path | None) -> Iterator[IO[str]]:
    """Where results go, standard output or a file; one that is there keeps its content until `clear`.

    Raises:
        DataError: it cannot be written.
    """
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # pytest's stand-in lacks it
        yield sys.stdout
        return
    try:
        with path.open("a", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}); choose another --output") from None


def clear(out: IO[str], path: Path | None) -> None:
    """Takes away what a file held before, now that the first results are ready."""
    if path is not None and path.is_file():
        out.truncate(0)
