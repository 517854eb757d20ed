"""A logging handler with a writer thread, so that slow readers of the log delay no answer."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from typing import Final, TextIO, final

_MAX_RECORDS: Final = 5_000
"""Maximum number of records that wait to be written."""
_FLUSH_SECONDS: Final = 1.0
"""Seconds for writing the waiting records at the end."""
_RETRY_SECONDS: Final = 0.05
"""Seconds after which writing to a busy non-blocking file is tried again."""


@final
class LogWriter(logging.Handler):
    """Logging handler that writes records as lines, in order, from a thread of its own.

    Records that find the queue full are dropped, and a line in their place says how many there were.

    Args:
        stream: to which the lines are written.
        max_records: that may wait in the queue.
    """

    def __init__(self, stream: TextIO, *, max_records: int = _MAX_RECORDS) -> None:
        super().__init__()
        self._stream = stream
        self._descriptor = _get_descriptor(stream)
        self._queue: queue.Queue[str | threading.Event | None] = queue.Queue(max_records)
        self._num_dropped = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._write_queued, name="log of heedful", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Format a record and queue it for writing."""
        try:
            line = self.format(record)
            if self._num_dropped:
                self._queue.put_nowait(self._format_drop_notice())
                self._num_dropped = 0
            self._queue.put_nowait(line)
        except queue.Full:
            self._num_dropped += 1
        except Exception:  # as other handlers do
            self.handleError(record)

    def flush(self) -> None:
        """Wait for a limited time until all queued records are written."""
        flushed = threading.Event()
        try:
            self._queue.put(flushed, timeout=_FLUSH_SECONDS)
        except queue.Full:
            return
        flushed.wait(_FLUSH_SECONDS)

    def close(self) -> None:
        """Write the queued records, as far as the stream accepts them in a limited time, and stop the thread."""
        try:
            if self._num_dropped:
                self._queue.put(self._format_drop_notice(), timeout=_FLUSH_SECONDS)
            self._queue.put(None, timeout=_FLUSH_SECONDS)
            self._thread.join(_FLUSH_SECONDS)
        except queue.Full:
            pass
        self._is_closed = True
        super().close()

    def _format_drop_notice(self) -> str:
        """Format the line that says how many records were dropped."""
        message = f"{self._num_dropped:,} log records are missing here, since earlier ones were not read in time"
        return self.format(logging.LogRecord("heedful.serving", logging.WARNING, __file__, 0, message, None, None))

    def _write_queued(self) -> None:
        """Write queued lines until the handler is closed."""
        while not self._is_closed:
            match self._queue.get():
                case str(line):
                    self._write(f"{line}\n")
                case None:
                    return
                case flushed:
                    flushed.set()

    def _write(self, line: str) -> None:
        """Write a line to the file descriptor if there is one, since at exit Python would wait for the stream's
        lock.
        """
        try:
            if self._descriptor is None:
                self._stream.write(line)
                return
            remaining = line.encode("utf-8", "backslashreplace")
            while remaining and not self._is_closed:
                try:
                    remaining = remaining[os.write(self._descriptor, remaining) :]
                except BlockingIOError:
                    time.sleep(_RETRY_SECONDS)
        except (OSError, ValueError):  # there is no reader any more
            return


def _get_descriptor(stream: TextIO) -> int | None:
    """Return the file descriptor of a stream, or None."""
    try:
        return stream.fileno()
    except (AttributeError, OSError):
        return None
