"""The log is written by a thread, so that no answer waits for who reads it, or does not."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from typing import Final, TextIO, final

_WAITING: Final = 5_000
"""Records that wait to be written."""
_PARTING: Final = 1.0
"""Seconds for what waits in the end."""
_PAUSE: Final = 0.05
"""Seconds after which a file that takes nothing at the moment, and says so, is tried again."""


@final
class Scribe(logging.Handler):
    """Writes records as lines, in their order.

    What finds no room among those that wait is left out, and how much that was is told where it is missing.

    Args:
        stream: where the lines go.
        most: records that wait.
    """

    def __init__(self, stream: TextIO, *, most: int = _WAITING) -> None:
        super().__init__()
        self._stream = stream
        self._descriptor = _descriptor(stream)
        self._waiting: queue.Queue[str | threading.Event | None] = queue.Queue(most)
        self._lost = 0
        self._over = False
        self._thread = threading.Thread(target=self._write_all, name="log of heedful", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Has a record written, soon."""
        try:
            line = self.format(record)
            if self._lost:
                self._waiting.put_nowait(self._told())
                self._lost = 0
            self._waiting.put_nowait(line)
        except queue.Full:
            self._lost += 1
        except Exception:  # as other handlers do
            self.handleError(record)

    def flush(self) -> None:
        """Waits, not for long, until all that came before is written."""
        written = threading.Event()
        try:
            self._waiting.put(written, timeout=_PARTING)
        except queue.Full:
            return
        written.wait(_PARTING)

    def close(self) -> None:
        """Writes what waits, as far as somebody reads it."""
        try:
            if self._lost:
                self._waiting.put(self._told(), timeout=_PARTING)
            self._waiting.put(None, timeout=_PARTING)
            self._thread.join(_PARTING)
        except queue.Full:
            pass
        self._over = True
        super().close()

    def _told(self) -> str:
        what = f"{self._lost:,} records of the log are missing here, since nobody read those before them"
        return self.format(logging.LogRecord("heedful.serving", logging.WARNING, __file__, 0, what, None, None))

    def _write_all(self) -> None:
        while not self._over:
            match self._waiting.get():
                case str(line):
                    self._write(f"{line}\n")
                case None:
                    return
                case written:
                    written.set()

    def _write(self, line: str) -> None:
        """Past the stream where it is a file: Python itself would wait for its lock in the end."""
        try:
            if self._descriptor is None:
                self._stream.write(line)
                return
            rest = line.encode("utf-8", "backslashreplace")
            while rest and not self._over:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    time.sleep(_PAUSE)
        except (OSError, ValueError):  # nobody will read it
            return


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (AttributeError, OSError):
        return None
