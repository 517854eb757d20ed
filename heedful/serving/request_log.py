"""The log: a line for each request, and tracebacks of those that failed; what was asked is told only if wanted."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, final

from pydantic import BaseModel

from heedful.serving.log_writer import LogWriter
from heedful.serving.settings import ServerSettings

SERVER_LOGGER: Final = logging.getLogger("heedful.serving")
_LOOP_LOGGER: Final = logging.getLogger("asyncio")
"""What the event loop says of what nobody has caught."""
_SECRET_FIELDS: Final = {"api_key", "apiKey"}
_MAX_MESSAGE_LENGTH: Final = 2_000
"""Characters that are told of what was asked."""
_MIN_REDACTED_LENGTH: Final = 3
"""Characters of a text that is looked for in messages of errors; shorter ones are in every word."""


@final
@dataclass
class RequestLog:
    """What the log tells of a request.

    Attributes:
        id: by which an answer names it.
        method: of HTTP.
        path: as it was sent, without its query.
        status: of the answer; None where there was none.
        model: that answered, if one did.
        key: its name, where keys are asked for.
        message: the request, as it was understood.
        started_at: by `time.perf_counter`.
    """

    id: str
    method: str
    path: str
    status: int | None = None
    model: str | None = None
    key: str | None = None
    message: BaseModel | None = None
    started_at: float = field(default_factory=time.perf_counter)

    @property
    def elapsed_seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self.started_at

    def to_json(self, *, include_texts: bool) -> Mapping[str, Any]:
        """All of it, as JSON has it."""
        fields = {
            "id": self.id,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "ms": round(1_000 * self.elapsed_seconds, 1),
            "model": self.model,
            "key": self.key or None,
            "asked": _format_message(self.message) if include_texts and self.message is not None else None,
        }
        return {name: value for name, value in fields.items() if value is not None}


_CURRENT_REQUEST: Final[ContextVar[RequestLog | None]] = ContextVar("heedful visit", default=None)


@contextmanager
def use_request_log(request_log: RequestLog) -> Iterator[None]:
    """What happens inside belongs to this request."""
    token = _CURRENT_REQUEST.set(request_log)
    try:
        yield
    finally:
        _CURRENT_REQUEST.reset(token)


def note_request(*, model: str | None = None, message: BaseModel | None = None) -> None:
    """Tells the request under way, if there is one, what became known of it."""
    request_log = _CURRENT_REQUEST.get()
    if request_log is not None:
        request_log.model = model or request_log.model
        request_log.message = message or request_log.message


def log_request(request_log: RequestLog) -> None:
    """The line of a request."""
    SERVER_LOGGER.info("request", extra={"visit": request_log})


def log_failure(request_id: str) -> None:
    """The traceback of the exception at hand, by the request's id."""
    SERVER_LOGGER.error("request %s failed", request_id, exc_info=True, extra={"failed": _CURRENT_REQUEST.get()})


def log_event(message: str) -> None:
    """Something that happened to the server itself, and should not."""
    SERVER_LOGGER.warning("%s", message)


@contextmanager
def use_server_logging(settings: ServerSettings) -> Iterator[None]:
    """The log goes to standard error, as the settings say, while this lasts."""
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
class _LogFormatter(logging.Formatter):
    """Records as lines of text or of JSON."""

    def __init__(self, *, as_json: bool, include_texts: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._include_texts = include_texts

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback has several, unless it is JSON."""
        timestamp = (
            datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
        request_log: RequestLog | None = getattr(record, "visit", None)
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
    yield from (str(fields.get(name, "-")) for name in ("id", "method", "path", "status"))
    yield f"{fields['ms']} ms"
    yield from (f"{name}={fields[name]}" for name in ("model", "key", "asked") if name in fields)


def _format_message(message: BaseModel) -> str:
    fields = message.model_dump(exclude=_SECRET_FIELDS, exclude_defaults=True)
    return json.dumps(fields, ensure_ascii=False, default=lambda value: f"<{type(value).__name__}>")[
        :_MAX_MESSAGE_LENGTH
    ]


def _iter_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str) and len(value) >= _MIN_REDACTED_LENGTH:
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _iter_strings(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _iter_strings(item)
