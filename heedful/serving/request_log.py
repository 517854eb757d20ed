"""Log one line for each request, and tracebacks of failures; request contents are logged only if the settings allow
it.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from typing import Any, Final, TextIO, final

from pydantic import BaseModel

from heedful.serving.settings import ServerSettings

SERVER_LOGGER: Final = logging.getLogger("heedful.serving")
_LOOP_LOGGER: Final = logging.getLogger("asyncio")
"""Logger through which the event loop reports uncaught exceptions."""
_SECRET_FIELDS: Final = {"api_key", "apiKey"}
_MAX_MESSAGE_LENGTH: Final = 2_000
"""Maximum characters of a message in the log."""
_MIN_REDACTED_LENGTH: Final = 3
"""Minimum characters of a text that is redacted in error messages; shorter ones occur in every word."""
_MAX_RECORDS: Final = 5_000
"""Maximum number of records that wait to be written."""
_FLUSH_SECONDS: Final = 1.0
"""Seconds for writing the waiting records at the end."""
_RETRY_SECONDS: Final = 0.05
"""Seconds after which writing to a busy non-blocking file is tried again."""


@final
@dataclass
class RequestLog:
    """What is logged about one request.

    Attributes:
        id: request id, which the answer names too.
        method: of HTTP.
        path: as it was sent, without the query.
        status: of the answer; None if there was none.
        model: that answered, if one did.
        run_id: id of the run that trained this model, if it has one.
        trace_ids: `trace_id` and `span_id`, if the request is traced.
        key: name of the API key, if keys are required.
        message: the parsed request.
        started_at: on the `time.perf_counter` clock.
    """

    id: str
    method: str
    path: str
    status: int | None = None
    model: str | None = None
    run_id: str | None = None
    trace_ids: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    message: BaseModel | None = None
    started_at: float = field(default_factory=time.perf_counter)

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the request started."""
        return time.perf_counter() - self.started_at

    def to_json(self, *, include_texts: bool) -> Mapping[str, Any]:
        """Return the log fields that have a value as a JSON object, with the request's message only if `include_texts`
        is set.
        """
        fields = {
            "id": self.id,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "ms": round(1_000 * self.elapsed_seconds, 1),
            "model": self.model,
            "run_id": self.run_id,
            "key": self.key or None,
            "asked": _format_message(self.message) if include_texts and self.message is not None else None,
            **self.trace_ids,
        }
        return {name: value for name, value in fields.items() if value is not None}


_CURRENT_REQUEST: Final[ContextVar[RequestLog | None]] = ContextVar("heedful request", default=None)


@contextmanager
def use_request_log(request_log: RequestLog) -> Iterator[None]:
    """Assign everything that is logged within the block to this request."""
    token = _CURRENT_REQUEST.set(request_log)
    try:
        yield
    finally:
        _CURRENT_REQUEST.reset(token)


def note_request(*, model: str | None = None, run_id: str | None = None, message: BaseModel | None = None) -> None:
    """Add the model with the id of its run, or the parsed message, to the log of the current request, if there is
    one.
    """
    request_log = _CURRENT_REQUEST.get()
    if request_log is not None:
        if model is not None:
            request_log.model, request_log.run_id = model, run_id
        request_log.message = message or request_log.message


def log_request(request_log: RequestLog) -> None:
    """Write the log line of a request."""
    SERVER_LOGGER.info("request", extra={"request_log": request_log})


def log_failure(request_id: str) -> None:
    """Log the traceback of the current exception under a request id."""
    SERVER_LOGGER.error("request %s failed", request_id, exc_info=True, extra={"failed": _CURRENT_REQUEST.get()})


def log_event(message: str) -> None:
    """Log a warning about the server itself."""
    SERVER_LOGGER.warning("%s", message)


@contextmanager
def use_server_logging(settings: ServerSettings) -> Iterator[None]:
    """Send the logs to standard error within the block, as the settings say."""
    handler = LogWriter(sys.stderr)
    handler.setFormatter(_LogFormatter(as_json=settings.log == "json", include_texts=settings.log_texts))
    saved = [(logger, logger.level, logger.propagate) for logger in (SERVER_LOGGER, _LOOP_LOGGER)]
    SERVER_LOGGER.setLevel(logging.WARNING if settings.log == "none" else logging.INFO)
    for logger, _, _ in saved:
        logger.propagate = False
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, level, propagate in saved:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate
        handler.close()


@final
class LogWriter(QueueHandler):
    """Logging handler that writes records as lines, in order, from a thread, so that slow readers delay no answer.

    Records that find the queue full are dropped, and a line in their place says how many there were.

    Args:
        stream: to which the lines are written.
        max_records: that may wait in the queue.
    """

    def __init__(self, stream: TextIO, *, max_records: int = _MAX_RECORDS) -> None:
        self._records: queue.Queue[logging.LogRecord | None] = queue.Queue(max_records)
        super().__init__(self._records)
        self._num_dropped = 0
        self._line_writer = _LineWriter(self._records, stream)
        self._line_writer.start()

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a formatted record without waiting; drop it if the queue is full."""
        try:
            if self._num_dropped:
                self._records.put_nowait(self._build_drop_notice())
                self._num_dropped = 0
            self._records.put_nowait(record)
        except queue.Full:
            self._num_dropped += 1

    def close(self) -> None:
        """Write the queued records, as far as the stream accepts them in a limited time, and stop the thread."""
        with suppress(queue.Full):
            if self._num_dropped:
                self._records.put(self._build_drop_notice(), timeout=_FLUSH_SECONDS)
            self._line_writer.stop()
        self._line_writer.is_closed = True
        super().close()

    def _build_drop_notice(self) -> logging.LogRecord:
        """Build the log record that says how many records were dropped."""
        message = f"{self._num_dropped:,} log records are missing here, since earlier ones were not read in time"
        record = logging.LogRecord("heedful.serving", logging.WARNING, __file__, 0, message, None, None)
        notice: logging.LogRecord = self.prepare(record)
        return notice


@final
class _LineWriter(QueueListener):
    """Writes formatted records to a file descriptor if there is one, since at exit Python would wait for the stream's
    lock.

    Attributes:
        is_closed: whether to leave what is not written yet.
    """

    def __init__(self, records: queue.Queue[logging.LogRecord | None], stream: TextIO) -> None:
        super().__init__(records)
        self.is_closed = False
        self._records = records
        self._stream = stream
        self._descriptor: int | None = None
        with suppress(AttributeError, OSError):
            self._descriptor = stream.fileno()

    def stop(self) -> None:
        """Wait for a limited time until all records are written; raise `queue.Full` if they are too many."""
        self._records.put(None, timeout=_FLUSH_SECONDS)
        if self._thread is not None:
            self._thread.join(_FLUSH_SECONDS)

    def dequeue(self, block: bool) -> logging.LogRecord | None:  # type: ignore[override]  # None ends the thread
        return None if self.is_closed else self._records.get(block)

    def handle(self, record: logging.LogRecord) -> None:
        """Write a formatted record as a line. Try again while a non-blocking file is busy; ignore the errors of a
        stream that is not read any more.
        """
        line = f"{record.getMessage()}\n"
        with suppress(OSError, ValueError):  # the stream is not read any more
            if self._descriptor is None:
                self._stream.write(line)
                return
            remaining = line.encode("utf-8", "backslashreplace")
            while remaining and not self.is_closed:
                try:
                    remaining = remaining[os.write(self._descriptor, remaining) :]
                except BlockingIOError:
                    time.sleep(_RETRY_SECONDS)


@final
class _LogFormatter(logging.Formatter):
    """Formats log records as lines of text or of JSON."""

    def __init__(self, *, as_json: bool, include_texts: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._include_texts = include_texts

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line; a traceback adds lines to it in text form."""
        timestamp = (
            datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
        request_log: RequestLog | None = getattr(record, "request_log", None)
        fields = (
            {"message": record.getMessage()}
            if request_log is None
            else request_log.to_json(include_texts=self._include_texts)
        )
        traceback_text = self._format_traceback(record)
        if self._as_json:
            level = {"time": timestamp, "level": record.levelname.lower()}
            return json.dumps(
                {**level, **fields, **({"trace": traceback_text} if traceback_text else {})}, ensure_ascii=False
            )
        values = fields.values() if request_log is None else _format_fields(fields)
        return " ".join([timestamp, *map(str, values)]) + (f"\n{traceback_text}" if traceback_text else "")

    def _format_traceback(self, record: logging.LogRecord) -> str:
        """Return the traceback of a record, with the texts of the request redacted unless they may be logged."""
        if not record.exc_info or record.exc_info[1] is None:
            return ""
        traceback_text = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
        request_log: RequestLog | None = getattr(record, "failed", None)
        if self._include_texts or request_log is None or request_log.message is None:
            return traceback_text
        for text in sorted(set(_iter_strings(request_log.message.model_dump())), key=len, reverse=True):
            traceback_text = traceback_text.replace(text, "…").replace(repr(text)[1:-1], "…")
        return traceback_text


def _format_fields(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of a request's log line as text."""
    yield from (str(fields.get(name, "-")) for name in ("id", "method", "path", "status"))
    yield f"{fields['ms']} ms"
    yield from (f"{name}={fields[name]}" for name in ("model", "key", "asked") if name in fields)


def _format_message(message: BaseModel) -> str:
    """Return a message as shortened JSON without its API key."""
    fields = message.model_dump(exclude=_SECRET_FIELDS, exclude_defaults=True)
    return json.dumps(fields, ensure_ascii=False, default=lambda value: f"<{type(value).__name__}>")[
        :_MAX_MESSAGE_LENGTH
    ]


def _iter_strings(value: Any) -> Iterator[str]:
    """Yield all texts in a nested value that are long enough to be redacted."""
    if isinstance(value, str) and len(value) >= _MIN_REDACTED_LENGTH:
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _iter_strings(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _iter_strings(item)
