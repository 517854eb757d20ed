"""Deadlines of requests, whether the client is still connected, and how to stop code that checks neither."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

from heedful.serving.http_errors import deadline_exceeded

T = TypeVar("T")


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
        """Register a callback that is called when the request is cancelled.

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
        """Raise `ClientDisconnected` if the client has disconnected, or a 504 `HTTPError` if the time is up."""
        if self._cancelled.is_set():
            raise ClientDisconnected
        if time.monotonic() >= self.expires_at:
            raise deadline_exceeded(self.seconds)


class _Interrupt(BaseException):
    """Raised in the working thread to stop it; not an `Exception`, so that no handler catches it."""


def run_interruptible(deadline: RequestDeadline, work: Callable[..., T], *arguments: Any) -> T:
    """Run `work` in this thread, and stop it when the deadline is over.

    An exception is raised in the thread from outside (`PyThreadState_SetAsyncExc`), between two instructions of
    Python. A single call of a C function is not interrupted, so no such call may take long.

    Args:
        deadline: of the request.
        work: function to run.
        arguments: of the function.

    Raises:
        HTTPError: the deadline has passed.
        ClientDisconnected: the client has disconnected.
    """
    interrupter = _ThreadInterrupter(threading.get_ident())
    timer = threading.Timer(max(0.0, deadline.expires_at - time.monotonic()), interrupter.interrupt)
    timer.name, timer.daemon = "deadline of heedful", True
    try:  # from here on the interrupt may come at any place
        deadline.add_cancel_callback(interrupter.interrupt)
        timer.start()
        try:
            return work(*arguments)
        finally:
            interrupter.disarm()
    except _Interrupt:
        interrupter.disarm()  # the interrupt may have come before `disarm` was called above
        deadline.raise_if_over()
        raise
    finally:
        timer.cancel()


@final
class _ThreadInterrupter:
    """Interrupts a thread at most once, and never after its work has ended.

    Args:
        thread: its identifier.
    """

    def __init__(self, thread: int) -> None:
        self._thread: int | None = thread
        self._lock = threading.Lock()
        self._is_sent = False

    def interrupt(self) -> None:
        """Raise an exception in the thread, unless its work has ended or it has been interrupted before."""
        with self._lock:
            if self._thread is not None and not self._is_sent:
                self._is_sent = True
                _set_async_exception(self._thread, _Interrupt)

    def disarm(self) -> None:
        """Stop interrupting, and clear an interrupt that the thread has not noticed yet."""
        with self._lock:
            if self._thread is not None and self._is_sent:
                _set_async_exception(self._thread, None)
            self._thread = None


def _set_async_exception(thread: int, error: type[BaseException] | None) -> None:
    argument: Any = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), argument)
