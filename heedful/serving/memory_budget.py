"""A budget of memory for decoding, from which requests reserve bytes and wait for them."""

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
"""Seconds after which a waiting request checks whether its client has disconnected."""


@final
class MemoryBudget:
    """Limits the bytes that all requests together use while they decode their inputs.

    Requests get their bytes in the order of their calls. A large request therefore waits until there is room
    for it, and small ones that arrive later do not overtake it.

    Args:
        capacity: bytes that may be reserved at the same time.
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
        """Reserve bytes while the block runs; a thread that calls this waits until there is room.

        Args:
            size: number of bytes.
            deadline: until which the request may wait.
            name: what needs the memory, for messages.

        Raises:
            HTTPError: the size exceeds the capacity (413), or the deadline has passed (504).
            ClientDisconnected: the client has disconnected.
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
        """Reserve bytes while the block runs, without blocking the event loop; see `reserve`."""
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
        """Return a reservation's bytes when the block ends."""
        reservation = MemoryReservation(self, size)
        try:
            yield reservation
        finally:
            reservation.reduce(0)

    def release(self, size: int) -> None:
        """Return bytes, and grant them to waiting requests."""
        with self._lock:
            self._used -= size
            self._grant_waiting()

    def _enqueue(self, size: int, name: str) -> Future[None]:
        """Queue a request for bytes and return a future that is done when they are granted."""
        if size > self.capacity:
            raise decoding_too_large(size, self.capacity, name=name)
        granted: Future[None] = Future()
        with self._lock:
            self._waiting.append((size, granted))
            self._grant_waiting()
        return granted

    def _grant_waiting(self) -> None:
        """Grant bytes to waiting requests in order, while there is room."""
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
        """Remove a request from the queue, or return its bytes if they were granted meanwhile."""
        if granted.cancel():
            with self._lock:
                self._grant_waiting()
            return
        with suppress(CancelledError):
            granted.result()
            self.release(size)


def _poll_interval(deadline: RequestDeadline) -> float:
    """Return how many seconds to wait before the deadline is checked again."""
    return max(0.0, min(_POLL_SECONDS, deadline.expires_at - time.monotonic()))


@final
class MemoryReservation:
    """Bytes of a memory budget that one request holds.

    Args:
        budget: from which they come.
        size: number of bytes.
    """

    def __init__(self, budget: MemoryBudget, size: int) -> None:
        self._budget = budget
        self._size = size

    def reduce(self, size: int) -> None:
        """Keep at most this many bytes, and return the others to the budget."""
        freed = self._size - size
        if freed > 0:
            self._size = size
            self._budget.release(freed)
