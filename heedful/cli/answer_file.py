"""A file of answers that is written in steps, so that work which was interrupted continues where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, Final, final

from filelock import FileLock, Timeout

from heedful.compression import strip_compression_suffix, write_compressed
from heedful.errors import DataError, RunError

_MAX_ATTEMPTS: Final = 10
"""Number of processes that may end at the same place of a file, before the file is given up."""
_LOCK_SECONDS: Final = 60.0
"""Seconds for which a process waits for another one that writes the same file, such as that of a killed command, which
Ray ends soon."""
_CURRENT_FILE: ContextVar[AnswerFile | None] = ContextVar("answer_file", default=None)


@final
class AnswerFile:
    """File of answers with its progress, which is stored after each step in a second file.

    The file is complete as soon as it has its name. Until then it is a hidden file beside it: `.NAME.growing`, with the
    progress in `.NAME.growing.json` and the lock in `.NAME.growing.lock`.

    Args:
        path: name of the complete file; one that ends with .gz, .bz2, .xz or .zst is compressed.
        fingerprint: text that differs if other answers are expected, because the input, the model or the options are
            not the same; progress with another fingerprint is not used.
        job: id of this run of the command, to count how often its processes end at the same place.

    Attributes:
        num_answered: number of inputs whose answers are stored.
        num_unread: number of them that could not be read.
    """

    def __init__(self, path: Path, *, fingerprint: str = "", job: str = "") -> None:
        self.path = path
        self.num_answered, self.num_unread, self._num_bytes = 0, 0, 0
        self._attempts = 0
        self._fingerprint = fingerprint
        self._job = job
        self._growing = path.with_name(f".{path.name}.growing")
        self._progress = path.with_name(f".{path.name}.growing.json")
        self._compressed = path.with_name(f".{path.name}.growing.compressed")
        self._lock = path.with_name(f".{path.name}.growing.lock")
        self._file: IO[bytes] | None = None

    @contextmanager
    def open(self) -> Iterator[bool]:
        """Lock the file, open it after the last stored answer, and give it its name if the block succeeds; yield
        whether there is something to do, which is False if another process has completed it.

        Raises:
            DataError: another process writes the file, or too many processes have ended at this place.
            RunError: the file cannot be written.
        """
        with self._hold_lock():
            has_work = not self.path.exists()
            if has_work:
                try:
                    with self._convert_errors():
                        self._start()
                    yield True
                    with self._convert_errors():
                        self._sync()
                finally:
                    self._close()
                with self._convert_errors():
                    self._complete()
            else:
                yield False
            self._remove_rest()

    def write(self, text: str) -> None:
        """Write a part of an answer."""
        assert self._file is not None, "the file is not open"
        content = text.encode()
        with self._convert_errors():
            self._file.write(content)
        self._num_bytes += len(content)

    def store(self, *, num_answered: int, num_unread: int) -> None:
        """Store what was written durably, as the answers to that number of inputs."""
        with self._convert_errors():
            self._sync()
        self.num_answered, self.num_unread, self._attempts = num_answered, num_unread, 0
        self._store_progress()

    def _start(self) -> None:
        """Open the growing file behind the last stored answer."""
        self._read_progress()
        self._file = self._growing.open("r+b" if self._num_bytes else "wb")
        self._file.seek(self._num_bytes)
        self._file.truncate()
        self._store_progress()

    def _sync(self) -> None:
        """Write the growing file durably."""
        assert self._file is not None, "the file is not open"
        self._file.flush()
        os.fsync(self._file.fileno())

    def _close(self) -> None:
        """Close the growing file; what was not stored may be lost."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert an `OSError` in the block to a `RunError` that names the file."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or error
            raise RunError(f"{self.path}: cannot be written ({reason}); choose another folder, or free space") from None

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Hold the lock, which the system releases when the process ends, even after a kill."""
        lock = FileLock(self._lock, timeout=_LOCK_SECONDS)
        with self._convert_errors():
            try:
                lock.acquire()
            except Timeout:
                raise DataError(
                    f"{self.path}: another process is writing it; wait until it ends, or choose another folder"
                ) from None
        try:
            yield
        finally:
            lock.release()

    def _read_progress(self) -> None:
        """Read what was stored by another process, if it is progress of the same work."""
        try:
            stored: Mapping[str, Any] = json.loads(self._progress.read_text(encoding="utf-8"))
            if stored["fingerprint"] != self._fingerprint or self._growing.stat().st_size < stored["bytes"]:
                return
            self.num_answered, self.num_unread = int(stored["answered"]), int(stored["unread"])
            self._num_bytes = int(stored["bytes"])
            self._attempts = int(stored["attempts"]) + 1 if stored["job"] == self._job else 0
        except (OSError, ValueError, KeyError, TypeError):  # there is none, or of another version
            return
        if self._attempts >= _MAX_ATTEMPTS:
            raise DataError(
                f"{self.path}: {self._attempts} processes ended while they answered the lines after "
                f"{self.num_answered:,}; the logs of Ray say why, which is often too little memory"
            )

    def _store_progress(self) -> None:
        """Store the number of answered inputs, the number of bytes, and what they belong to."""
        from heedful.atomic_io import write_atomic

        stored = {
            "answered": self.num_answered,
            "unread": self.num_unread,
            "bytes": self._num_bytes,
            "attempts": self._attempts,
            "job": self._job,
            "fingerprint": self._fingerprint,
        }
        write_atomic(self._progress, json.dumps(stored).encode())

    def _complete(self) -> None:
        """Give the file its name, compressed if that ends with the suffix of a compression."""
        if strip_compression_suffix(self.path.name) == self.path.name:
            self._growing.replace(self.path)
            return
        with self._growing.open("rb") as plain, self._compressed.open("wb") as compressed:
            write_compressed(plain, compressed, name=self.path.name)
            compressed.flush()
            os.fsync(compressed.fileno())
        self._compressed.replace(self.path)

    def _remove_rest(self) -> None:
        """Remove what is not needed beside the complete file."""
        for path in (self._growing, self._compressed, self._progress, self._lock):
            path.unlink(missing_ok=True)


@contextmanager
def use_answer_file(file: AnswerFile) -> Iterator[None]:
    """Let `heedful.cli.line_commands.write_answers` write to an open file in the block."""
    token = _CURRENT_FILE.set(file)
    try:
        yield
    finally:
        _CURRENT_FILE.reset(token)


def get_current_answer_file() -> AnswerFile | None:
    """Return the file of the surrounding `use_answer_file`, if there is one."""
    return _CURRENT_FILE.get()
