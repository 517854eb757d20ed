"""Work in Python that asks nobody whether to go on, such as parsing a file, and is stopped all the same."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar, final

from heedful.serving.deadline import RequestDeadline

T = TypeVar("T")


class _Interrupt(BaseException):
    """Raised in the thread that works; no handler of `Exception` may catch it."""


def run_interruptible(deadline: RequestDeadline, work: Callable[..., T], *arguments: Any) -> T:
    """Work in this thread, and stop where it is when the term is over.

    An exception is raised in the thread from outside (`PyThreadState_SetAsyncExc`), between two instructions of Python.
    A single call of a C function is not interrupted, so no such call may take long.

    Args:
        deadline: how long the request waits.
        work: that is stopped.
        arguments: its arguments.

    Raises:
        Refusal: the term ended.
        Gone: the client has left.
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
        interrupter.disarm()  # the interrupt may have come before the other call of it
        deadline.raise_if_over()
        raise
    finally:
        timer.cancel()


@final
class _ThreadInterrupter:
    """Interrupts a thread once, and never after its work has ended.

    Args:
        thread: its identifier.
    """

    def __init__(self, thread: int) -> None:
        self._thread: int | None = thread
        self._lock = threading.Lock()
        self._is_sent = False

    def interrupt(self) -> None:
        """Raise an exception in the thread, unless its work has ended or it was interrupted before."""
        with self._lock:
            if self._thread is not None and not self._is_sent:
                self._is_sent = True
                _set_async_exception(self._thread, _Interrupt)

    def disarm(self) -> None:
        """Nothing is interrupted from now on, and what was not noticed yet never will be."""
        with self._lock:
            if self._thread is not None and self._is_sent:
                _set_async_exception(self._thread, None)
            self._thread = None


def _set_async_exception(thread: int, error: type[BaseException] | None) -> None:
    argument: Any = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), argument)
