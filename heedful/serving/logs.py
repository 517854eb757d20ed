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

from heedful.serving.scribe import Scribe
from heedful.serving.settings import Settings

LOGGER: Final = logging.getLogger("heedful.serving")
_LOOP: Final = logging.getLogger("asyncio")
"""What the event loop says of what nobody has caught."""
_SECRETS: Final = {"api_key", "apiKey"}
_LONGEST: Final = 2_000
"""Characters that are told of what was asked."""
_SHORTEST: Final = 3
"""Characters of a text that is looked for in messages of errors; shorter ones are in every word."""


@final
@dataclass
class Visit:
    """What the log tells of a request.

    Attributes:
        id: by which an answer names it.
        method: of HTTP.
        path: as it was sent, without its query.
        status: of the answer; None where there was none.
        model: that answered, if one did.
        key: its name, where keys are asked for.
        asked: the request, as it was understood.
        began: by `time.perf_counter`.
    """

    id: str
    method: str
    path: str
    status: int | None = None
    model: str | None = None
    key: str | None = None
    asked: BaseModel | None = None
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self.began

    def told(self, *, texts: bool) -> Mapping[str, Any]:
        """All of it, as JSON has it."""
        found = {
            "id": self.id,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "ms": round(1_000 * self.seconds, 1),
            "model": self.model,
            "key": self.key or None,
            "asked": _asked(self.asked) if texts and self.asked is not None else None,
        }
        return {name: value for name, value in found.items() if value is not None}


_VISIT: Final[ContextVar[Visit | None]] = ContextVar("heedful visit", default=None)


@contextmanager
def visiting(visit: Visit) -> Iterator[None]:
    """What happens inside belongs to this request."""
    before = _VISIT.set(visit)
    try:
        yield
    finally:
        _VISIT.reset(before)


def note(*, model: str | None = None, asked: BaseModel | None = None) -> None:
    """Tells the request under way, if there is one, what became known of it."""
    visit = _VISIT.get()
    if visit is not None:
        visit.model = model or visit.model
        visit.asked = asked or visit.asked


def tell(visit: Visit) -> None:
    """The line of a request."""
    LOGGER.info("request", extra={"visit": visit})


def tell_failure(number: str) -> None:
    """The traceback of the exception at hand, by the request's id."""
    LOGGER.error("request %s failed", number, exc_info=True, extra={"failed": _VISIT.get()})


def tell_event(message: str) -> None:
    """Something that happened to the server itself, and should not."""
    LOGGER.warning("%s", message)


@contextmanager
def logging_as(settings: Settings) -> Iterator[None]:
    """The log goes to standard error, as the settings say, while this lasts."""
    handler = Scribe(sys.stderr)
    handler.setFormatter(_Lines(as_json=settings.log == "json", texts=settings.log_texts))
    before = [(each, each.level, each.propagate) for each in (LOGGER, _LOOP)]
    LOGGER.setLevel(logging.WARNING if settings.log == "none" else logging.INFO)
    for each, _, _ in before:
        each.propagate = False
        each.addHandler(handler)
    try:
        yield
    finally:
        for each, level, propagate in before:
            each.removeHandler(handler)
            each.setLevel(level)
            each.propagate = propagate
        handler.close()


@final
class _Lines(logging.Formatter):
    """Records as lines of text or of JSON."""

    def __init__(self, *, as_json: bool, texts: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._texts = texts

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback has several, unless it is JSON."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        visit: Visit | None = getattr(record, "visit", None)
        told = {"message": record.getMessage()} if visit is None else visit.told(texts=self._texts)
        trace = self._trace(record)
        if self._as_json:
            level = {"time": at, "level": record.levelname.lower()}
            return json.dumps({**level, **told, **({"trace": trace} if trace else {})}, ensure_ascii=False)
        words = told.values() if visit is None else _words(told)
        return " ".join([at, *map(str, words)]) + (f"\n{trace}" if trace else "")

    def _trace(self, record: logging.LogRecord) -> str:
        if not record.exc_info or record.exc_info[1] is None:
            return ""
        trace = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
        visit: Visit | None = getattr(record, "failed", None)
        if self._texts or visit is None or visit.asked is None:
            return trace
        for text in sorted(set(_strings(visit.asked.model_dump())), key=len, reverse=True):
            trace = trace.replace(text, "…").replace(repr(text)[1:-1], "…")
        return trace


def _words(told: Mapping[str, Any]) -> Iterator[str]:
    yield from (str(told.get(name, "-")) for name in ("id", "method", "path", "status"))
    yield f"{told['ms']} ms"
    yield from (f"{name}={told[name]}" for name in ("model", "key", "asked") if name in told)


def _asked(asked: BaseModel) -> str:
    table = asked.model_dump(exclude=_SECRETS, exclude_defaults=True)
    return json.dumps(table, ensure_ascii=False, default=lambda each: f"<{type(each).__name__}>")[:_LONGEST]


def _strings(content: Any) -> Iterator[str]:
    if isinstance(content, str) and len(content) >= _SHORTEST:
        yield content
    elif isinstance(content, Mapping):
        for each in content.values():
            yield from _strings(each)
    elif isinstance(content, list | tuple | set | frozenset):
        for each in content:
            yield from _strings(each)
