"""How long somebody waits for an answer, and whether anybody still does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from heedful.serving.http_errors import deadline_exceeded


class ClientDisconnected(Exception):  # noqa: N818 - nothing failed
    """Nobody waits for the answer any more: raised in the thread that works for a request."""


@final
@dataclass(frozen=True)
class RequestDeadline:
    """How long somebody waits for an answer, and whether still.

    Attributes:
        seconds: that were granted.
        expires_at: when they end, by `time.monotonic`.
    """

    seconds: float
    expires_at: float
    _cancelled: threading.Event = field(default_factory=threading.Event)
    _callbacks: list[Callable[[], None]] = field(default_factory=list)

    @classmethod
    def from_seconds(cls, seconds: float) -> RequestDeadline:
        """So long from now."""
        return cls(seconds, time.monotonic() + seconds)

    def cancel(self) -> None:
        """Whoever asked has left."""
        self._cancelled.set()
        for callback in [*self._callbacks]:
            callback()

    def add_cancel_callback(self, callback: Callable[[], None]) -> None:
        """Has somebody told, in the thread that notices it, and perhaps more than once."""
        self._callbacks.append(callback)
        if self._cancelled.is_set():
            callback()

    @property
    def is_over(self) -> bool:
        """Whether the work may stop: `Until` of a search."""
        return self._cancelled.is_set() or time.monotonic() >= self.expires_at

    def raise_if_over(self) -> None:
        """Raises where it is over."""
        if self._cancelled.is_set():
            raise ClientDisconnected
        if time.monotonic() >= self.expires_at:
            raise deadline_exceeded(self.seconds)
