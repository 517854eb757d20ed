"""Work in Python that asks nobody whether to go on, such as parsing a file, and is stopped all the same."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar, final

from heedful.serving.term import Term

T = TypeVar("T")


class _Interrupt(BaseException):
    """Raised in the thread that works; no handler of `Exception` may catch it."""


def interruptible(term: Term, work: Callable[..., T], *given: Any) -> T:
    """Work in this thread, and stop where it is when the term is over.

    An exception is raised in the thread from outside (`PyThreadState_SetAsyncExc`), between two instructions of Python.
    A single call of a C function is not interrupted, so no such call may take long.

    Args:
        term: how long the request waits.
        work: that is stopped.
        given: its arguments.

    Raises:
        Refusal: the term ended.
        Gone: the client has left.
    """
    interrupter = _Interrupter(threading.get_ident())
    timer = threading.Timer(max(0.0, term.at - time.monotonic()), interrupter.interrupt)
    timer.name, timer.daemon = "deadline of heedful", True
    try:  # from here on the interrupt may come at any place
        term.when_left(interrupter.interrupt)
        timer.start()
        try:
            return work(*given)
        finally:
            interrupter.end()
    except _Interrupt:
        interrupter.end()  # the interrupt may have come before the other call of it
        term.check()
        raise
    finally:
        timer.cancel()


@final
class _Interrupter:
    """Interrupts a thread once, and never after its work has ended.

    Args:
        thread: its identifier.
    """

    def __init__(self, thread: int) -> None:
        self._thread: int | None = thread
        self._guarding = threading.Lock()
        self._is_sent = False

    def interrupt(self) -> None:
        """Raise an exception in the thread, unless its work has ended or it was interrupted before."""
        with self._guarding:
            if self._thread is not None and not self._is_sent:
                self._is_sent = True
                _raise_in(self._thread, _Interrupt)

    def end(self) -> None:
        """Nothing is interrupted from now on, and what was not noticed yet never will be."""
        with self._guarding:
            if self._thread is not None and self._is_sent:
                _raise_in(self._thread, None)
            self._thread = None


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    given: Any = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given)
