"""Deadlines of requests, and whether the client is still connected."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from heedful.serving.http_errors import deadline_exceeded


class ClientDisconnected(Exception):  # noqa: N818 - nothing failed
    """The client has disconnected; raised in the thread that works for the request."""


@final
@dataclass(frozen=True)
class RequestDeadline:
    """Deadline of one request, which the client can end early by disconnecting.

    Attributes:
        seconds: time that the request was granted.
        expires_at: end of that time on the `time.monotonic` clock.
    """

    seconds: float
    expires_at: float
    _cancelled: threading.Event = field(default_factory=threading.Event)
    _callbacks: list[Callable[[], None]] = field(default_factory=list)

    @classmethod
    def from_seconds(cls, seconds: float) -> RequestDeadline:
        """Build a deadline that ends this many seconds from now."""
        return cls(seconds, time.monotonic() + seconds)

    def cancel(self) -> None:
        """Mark the request as cancelled, because the client has disconnected, and run the callbacks."""
        self._cancelled.set()
        for callback in [*self._callbacks]:
            callback()

    def add_cancel_callback(self, callback: Callable[[], None]) -> None:
        """Register a callback for the cancellation.

        It runs in the cancelling thread, or at once if that has happened, and perhaps more than once.
        """
        self._callbacks.append(callback)
        if self._cancelled.is_set():
            callback()

    @property
    def is_over(self) -> bool:
        """Whether the work may stop: the client has disconnected or the time is up. Used as the `until` condition
        of a search.
        """
        return self._cancelled.is_set() or time.monotonic() >= self.expires_at

    def raise_if_over(self) -> None:
        """Raise `ClientDisconnected` or a timeout error if the deadline is over."""
        if self._cancelled.is_set():
            raise ClientDisconnected
        if time.monotonic() >= self.expires_at:
            raise deadline_exceeded(self.seconds)
