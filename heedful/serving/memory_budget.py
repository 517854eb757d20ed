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

from heedful.serving.deadline import RequestDeadline
from heedful.serving.http_errors import decoding_too_large

_POLL_SECONDS: Final = 0.2
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
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """Bytes that are reserved now."""
        return self._used

    @contextmanager
    def reserve(self, size: int, deadline: RequestDeadline, *, name: str) -> Iterator[MemoryReservation]:
        """Reserve bytes while the block runs; for threads, which wait until there is room.

        Args:
            size: bytes.
            deadline: how long the request may wait.
            name: what needs the memory, for messages.

        Raises:
            Refusal: the size exceeds the capacity (413), or the term ended (504).
            Gone: the client has left.
        """
        granted = self._enqueue(size, name)
        try:
            while not granted.done():
                deadline.raise_if_over()
                with suppress(TimeoutError):
                    granted.result(timeout=_poll_interval(deadline))
            deadline.raise_if_over()
        except BaseException:
            self._cancel_request(size, granted)
            raise
        with self._release_after(size) as reservation:
            yield reservation

    @asynccontextmanager
    async def reserve_async(
        self, size: int, deadline: RequestDeadline, *, name: str
    ) -> AsyncIterator[MemoryReservation]:
        """The same for coroutines, which do not block the event loop."""
        granted = self._enqueue(size, name)
        try:
            while not granted.done():
                deadline.raise_if_over()
                await asyncio.wait({asyncio.wrap_future(granted)}, timeout=_poll_interval(deadline))
            deadline.raise_if_over()
        except BaseException:
            self._cancel_request(size, granted)
            raise
        with self._release_after(size) as reservation:
            yield reservation

    @contextmanager
    def _release_after(self, size: int) -> Iterator[MemoryReservation]:
        reservation = MemoryReservation(self, size)
        try:
            yield reservation
        finally:
            reservation.reduce(0)

    def release(self, size: int) -> None:
        """Return bytes, and grant them to the requests that wait."""
        with self._lock:
            self._used -= size
            self._grant_waiting()

    def _enqueue(self, size: int, name: str) -> Future[None]:
        if size > self.capacity:
            raise decoding_too_large(size, self.capacity, name=name)
        granted: Future[None] = Future()
        with self._lock:
            self._waiting.append((size, granted))
            self._grant_waiting()
        return granted

    def _grant_waiting(self) -> None:
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

    def _cancel_request(self, size: int, granted: Future[None]) -> None:
        """Give up a place in the queue, or what was granted meanwhile."""
        if granted.cancel():
            with self._lock:
                self._grant_waiting()
            return
        with suppress(CancelledError):
            granted.result()
            self.release(size)


def _poll_interval(deadline: RequestDeadline) -> float:
    return max(0.0, min(_POLL_SECONDS, deadline.expires_at - time.monotonic()))


@final
class MemoryReservation:
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
            self._budget.release(freed)
