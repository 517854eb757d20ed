"""Count the operations on files of a process, and do something at one of them.

Python reports what opens, renames and removes files to audit hooks. Writes and `fsync` are counted by functions in
their place, and the tensors that safetensors writes as one operation.
"""

from __future__ import annotations

import builtins
import io
import mmap
import os
import signal
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.link", "os.symlink"}
_READS = {"os.listdir", "os.scandir"}
_real_open, _real_fsync = io.open, os.fsync


@dataclass(frozen=True)
class Operation:
    """One operation on a file.

    Attributes:
        number: how many there were before it.
        name: `open`, `create`, `write`, `fsync`, `tensors`, or the function of `os`.
        path: absolute path of the file.
    """

    number: int
    name: str
    path: str


class OperationWatch:
    """Calls a function at each operation on a file of a folder.

    The number of operations is in memory that a forked process shares, so it is known after that process was killed.

    Args:
        folder: files elsewhere are not watched.
        act: function that is called before each operation; an `OSError` of it becomes that of the operation.
        reading: whether operations that only read count too.
    """

    def __init__(self, folder: Path, act: Callable[[Operation], None], *, reading: bool = False) -> None:
        self.folder = str(folder.resolve())
        self.act = act
        self.reading = reading
        self._count = mmap.mmap(-1, 8)
        self._inside = False

    @property
    def count(self) -> int:
        """Number of operations so far."""
        number: int = struct.unpack("<q", self._count[:8])[0]
        return number

    def install(self) -> None:
        """Watch this process from now on; this cannot be undone."""
        import heedful.atomic_io as files

        watch = self

        class WatchedFile(io.FileIO):
            def write(self, content: Any) -> int:
                try:
                    watch.add("write", self.name)
                except OSError:
                    super().write(bytes(content)[: len(content) // 2])  # as a full disk does
                    raise
                return super().write(content)

        def open_watched(file: Any, mode: str = "r", buffering: int = -1, *given: Any, **named: Any) -> Any:
            options = {
                **dict(zip(("encoding", "errors", "newline", "closefd", "opener"), given, strict=False)),
                **named,
            }
            if not set(mode) & set("wax+") or not self.is_inside(file) or options.pop("opener", None) is not None:
                return _real_open(file, mode, buffering, *given, **named)
            options.pop("closefd", None)
            raw = WatchedFile(file, mode.replace("b", "").replace("t", ""))
            if buffering == 0:
                return raw
            buffer = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return buffer if "b" in mode else io.TextIOWrapper(buffer, line_buffering=buffering == 1, **options)

        def fsync(handle: int) -> None:
            self.add("fsync", Path(f"/proc/self/fd/{handle}").readlink())
            _real_fsync(handle)

        save_file = files.save_file

        def save_watched(tensors: Any, path: Any, **named: Any) -> None:
            try:
                self.add("tensors", path)
            except OSError as error:
                Path(path).write_bytes(b"\0" * 100)
                raise files.SafetensorError(f"I/O error: {error.strerror} (os error {error.errno})") from None
            save_file(tensors, path, **named)

        builtins.open = io.open = open_watched  # type: ignore[assignment]
        os.fsync = fsync  # type: ignore[assignment]
        files.save_file = save_watched
        sys.addaudithook(self._hear)

    def is_inside(self, path: Any) -> bool:
        """Return whether a path is that of a file in the folder."""
        if isinstance(path, int):
            return False
        return os.path.abspath(os.fsdecode(path)).startswith(self.folder + os.sep)  # noqa: PTH100 - must open nothing

    def add(self, name: str, path: Any) -> None:
        """Count an operation, and act."""
        if self._inside or not self.is_inside(path):
            return
        operation = Operation(self.count, name, os.path.abspath(os.fsdecode(path)))  # noqa: PTH100
        self._count[:8] = struct.pack("<q", operation.number + 1)
        self._inside = True
        try:
            self.act(operation)
        finally:
            self._inside = False

    def _hear(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = given
            if flags & WRITE_FLAGS:
                self.add("create", path)
            elif self.reading:
                self.add("open", path)
        elif event in _CHANGES or (self.reading and event in _READS):
            path = given[0]
            if event in ("os.remove", "os.rmdir", "os.mkdir") and isinstance(given[-1], int) and given[-1] >= 0:
                path = f"{Path(f'/proc/self/fd/{given[-1]}').readlink()}/{path}"
            if path is not None:
                self.add(event, path)


def kill_process() -> None:
    """Kill this process, as a power cut does."""
    os.kill(os.getpid(), signal.SIGKILL)
