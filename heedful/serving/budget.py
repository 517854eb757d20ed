"""Memory that requests may take at one time: a budget of bytes, of which each acquires a part and waits for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final, final

from heedful.serving.refusal import oversized
from heedful.serving.term import Term

_LONGEST_SLEEP: Final = 0.2
"""Seconds after which whoever waits looks whether its client has left."""


@final
class MemoryBudget:
    """Bytes that are reserved before something is decoded, and given back afterwards.

    Requests get their bytes in the order in which they ask. A large request therefore waits until there is room for
    it, and small ones that come later do not pass it.

    Args:
        capacity: bytes that are reserved at one time, at most.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._used = 0
        self._waiting: deque[tuple[int, Future[None]]] = deque()
        self._guarding = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes that are reserved now."""
        return self._used

    @contextmanager
    def reserve(self, size: int, term: Term, *, name: str) -> Iterator[Reservation]:
        """Reserve bytes while the block runs; for threads, which wait until there is room.

        Args:
            size: bytes.
            term: how long the request may wait.
            name: what needs the memory, for messages.

        Raises:
            Refusal: the size exceeds the capacity (413), or the term ended (504).
            Gone: the client has left.
        """
        granted = self._ask(size, name)
        try:
            while not granted.done():
                term.check()
                with suppress(TimeoutError):
                    granted.result(timeout=_sleep(term))
            term.check()
        except BaseException:
            self._withdraw(size, granted)
            raise
        with self._held(size) as reservation:
            yield reservation

    @asynccontextmanager
    async def reserve_async(self, size: int, term: Term, *, name: str) -> AsyncIterator[Reservation]:
        """The same for coroutines, which do not block the event loop."""
        granted = self._ask(size, name)
        try:
            while not granted.done():
                term.check()
                await asyncio.wait({asyncio.wrap_future(granted)}, timeout=_sleep(term))
            term.check()
        except BaseException:
            self._withdraw(size, granted)
            raise
        with self._held(size) as reservation:
            yield reservation

    @contextmanager
    def _held(self, size: int) -> Iterator[Reservation]:
        reservation = Reservation(self, size)
        try:
            yield reservation
        finally:
            reservation.reduce(0)

    def give_back(self, size: int) -> None:
        """Return bytes, and grant them to the requests that wait."""
        with self._guarding:
            self._used -= size
            self._grant()

    def _ask(self, size: int, name: str) -> Future[None]:
        if size > self.capacity:
            raise oversized(size, self.capacity, name=name)
        granted: Future[None] = Future()
        with self._guarding:
            self._waiting.append((size, granted))
            self._grant()
        return granted

    def _grant(self) -> None:
        while self._waiting:
            size, granted = self._waiting[0]
            if granted.cancelled():
                self._waiting.popleft()
                continue
            if self._used + size > self.capacity:
                return
            self._waiting.popleft()
            if granted.set_running_or_notify_cancel():
                self._used += size
                granted.set_result(None)

    def _withdraw(self, size: int, granted: Future[None]) -> None:
        """Give up a place in the queue, or what was granted meanwhile."""
        if granted.cancel():
            with self._guarding:
                self._grant()
            return
        with suppress(CancelledError):
            granted.result()
            self.give_back(size)


def _sleep(term: Term) -> float:
    return max(0.0, min(_LONGEST_SLEEP, term.at - time.monotonic()))


@final
class Reservation:
    """Bytes that one request holds.

    Args:
        budget: to which they return.
        size: how many there are.
    """

    def __init__(self, budget: MemoryBudget, size: int) -> None:
        self._budget = budget
        self._size = size

    def reduce(self, size: int) -> None:
        """Keep this many bytes at most, and return the others."""
        freed = self._size - size
        if freed > 0:
            self._size = size
            self._budget.give_back(freed)
