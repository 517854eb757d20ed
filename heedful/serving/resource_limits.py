"""Limits on what all requests use together: memory for bodies, decoding and results, and worker threads."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, Generic, TypeAlias, TypeVar, final

from heedful.serving.deadline import RequestDeadline
from heedful.serving.http_errors import bodies_too_large, decoding_too_large, queue_full
from heedful.serving.tracing import wrap_with_spans

ReceiveCallable: TypeAlias = Callable[[], Awaitable[Any]]
UNCOUNTED_BYTES: Final = 65_536
"""Bytes of a body that are not counted; a connection may have as many in its buffers anyway."""
_MIN_ARRIVAL_SECONDS: Final = 1.0
"""Seconds that a body may arrive before it can be dropped for a faster one."""
_POLL_SECONDS: Final = 0.2
"""Seconds after which a waiting request checks whether its client has disconnected."""
T = TypeVar("T")


@final
class BodyBudget:
    """Counts the bytes of all bodies larger than `UNCOUNTED_BYTES`, from their arrival until their requests are
    answered.

    If there is no room, the unfinished body that arrives most slowly is dropped, and its request is rejected;
    this may be the one that needs room.

    Args:
        capacity: bytes that may be held at the same time.
        clock: returns seconds.
    """

    def __init__(self, capacity: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = capacity
        self._clock = clock
        self._used = 0
        self._arriving: set[RequestBody] = set()

    @property
    def used_bytes(self) -> int:
        """Bytes that are held now."""
        return self._used

    def start_body(self) -> RequestBody:
        """Start to count the body of a new request."""
        return RequestBody(self, self._clock())

    def add_bytes(self, body: RequestBody, size: int) -> None:
        """Count `size` further bytes of a body that is still arriving; if there is no room, drop the slowest bodies.

        Raises:
            HTTPError: there is no room (503).
        """
        self._arriving.add(body)
        while self._used + size > self._capacity:
            slowest = self._find_slowest()
            if slowest is None or slowest is body:
                raise bodies_too_large()
            slowest.drop()
        self._used += size
        body.num_held += size

    def mark_complete(self, body: RequestBody) -> None:
        """Mark a body as completely arrived, so that it cannot be dropped any more."""
        self._arriving.discard(body)

    def release_body(self, body: RequestBody) -> None:
        """Stop counting a body."""
        self._arriving.discard(body)
        self._used -= body.num_held
        body.num_held = 0

    def _find_slowest(self) -> RequestBody | None:
        """Return the unfinished body with the lowest arrival rate, of those that have been arriving for
        `_MIN_ARRIVAL_SECONDS`; None if there is none.
        """
        now = self._clock()
        candidates = [body for body in self._arriving if now - body.started_at >= _MIN_ARRIVAL_SECONDS]
        return min(candidates, key=lambda body: body.num_received / (now - body.started_at), default=None)


@final
class RequestBody:
    """The body of one request while it arrives.

    Args:
        budget: for all bodies.
        started_at: when it began to arrive.

    Attributes:
        num_received: bytes that have arrived.
        num_held: bytes that the budget counts.
    """

    def __init__(self, budget: BodyBudget, started_at: float) -> None:
        self.started_at = started_at
        self.num_received = 0
        self.num_held = 0
        self._budget = budget
        self._is_dropped = False
        self._drop_event = asyncio.Event()

    async def receive(self, receive: ReceiveCallable) -> Any:
        """Receive the next message of the ASGI function `receive`, count its bytes and return it.

        Raises:
            HTTPError: there is no room for the body, or it was dropped meanwhile (503).
        """
        message = await (self._receive_or_drop(receive) if self.num_held else receive())
        size = len(message.get("body", b""))
        if self._is_dropped:
            raise bodies_too_large()
        self.num_received += size
        if size and self.num_received > UNCOUNTED_BYTES:
            self._budget.add_bytes(self, self.num_received - self.num_held)
        if not message.get("more_body", False):
            self._budget.mark_complete(self)
        return message

    def drop(self) -> None:
        """Drop the body because others need its room; `receive` then raises an `HTTPError`."""
        self._is_dropped = True
        self._budget.release_body(self)
        self._drop_event.set()

    def release(self) -> None:
        """Stop counting the body, because its request is answered."""
        self._budget.release_body(self)

    async def _receive_or_drop(self, receive: ReceiveCallable) -> Any:
        """Return the next message of the ASGI function `receive`; raise an `HTTPError` if the body is dropped first."""
        receive_task = asyncio.ensure_future(receive())
        drop_task = asyncio.ensure_future(self._drop_event.wait())
        try:
            await asyncio.wait({receive_task, drop_task}, return_when=asyncio.FIRST_COMPLETED)
            if not receive_task.done():
                raise bodies_too_large()
            return receive_task.result()
        finally:
            receive_task.cancel()
            drop_task.cancel()


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
        """Reserve `size` bytes while the block runs, without blocking the event loop; wait for them until the deadline
        at most. Errors call what needs them by `name`; see `reserve`.
        """
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
        """Hold a reservation of `size` bytes, which are granted already, during the block, and return its bytes at the
        end.
        """
        reservation = MemoryReservation(self, size)
        try:
            yield reservation
        finally:
            reservation.reduce(0)

    def release(self, size: int) -> None:
        """Give `size` bytes back to the budget, and grant them to waiting requests."""
        with self._lock:
            self._used -= size
            self._grant_waiting()

    def _enqueue(self, size: int, name: str) -> Future[None]:
        """Queue a request for `size` bytes and return a future that is done when they are granted; raise an
        `HTTPError`, which calls what needs them by `name`, if they exceed the capacity.
        """
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
        """Remove a request for `size` bytes from the queue, or return the bytes if `granted`, the future of the
        request, was done meanwhile.
        """
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
        """Keep at most `size` bytes, and return the others to the budget."""
        freed = self._size - size
        if freed > 0:
            self._size = size
            self._budget.release(freed)


@final
class WorkQueue:
    """A thread pool with a limit on the requests that wait or are worked for.

    Args:
        name: of the threads.
        threads: number of threads.
        max_requests: requests that may wait or be worked for at the same time.
    """

    def __init__(self, name: str, *, threads: int, max_requests: int) -> None:
        self._name = name
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"heedful {name}")
        self._max_requests = max_requests
        self._count = 0

    @property
    def num_waiting(self) -> int:
        """Number of requests that wait or are worked for."""
        return self._count

    async def run(self, deadline: RequestDeadline, work: Callable[[], T]) -> T:
        """Run `work` in a thread and return its result.

        Raises:
            HTTPError: too many requests wait, or the deadline has passed before the work started.
            ClientDisconnected: the client has disconnected.
        """
        with self.reserve_slot():
            return await asyncio.wrap_future(self.submit(deadline, work))

    def submit(self, deadline: RequestDeadline, work: Callable[[], T]) -> Future[T]:
        """Submit `work` to the threads, for a request that has a slot, and return the future of its result; it fails if
        the deadline is over before the work starts.
        """

        def run_if_wanted() -> T:
            deadline.raise_if_over()
            return work()

        return self._threads.submit(wrap_with_spans(self._name, run_if_wanted))

    @contextmanager
    def reserve_slot(self) -> Iterator[None]:
        """Hold one slot of the queue during the block; raise an `HTTPError` if all are taken."""
        if self._count >= self._max_requests:
            raise queue_full()
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    def close(self) -> None:
        """Start no more work; the threads end as soon as they are idle."""
        self._threads.shutdown(wait=False, cancel_futures=True)


@final
class TemporaryStore(Generic[T]):
    """Keeps results for some minutes, under random names; for use in the event loop.

    Args:
        max_bytes: of all results together; the oldest are removed if there are more, but never the newest.
        max_items: results that are kept at the same time; the oldest are removed likewise.
        seconds: after which a result is removed.
    """

    def __init__(self, *, max_bytes: int, max_items: int, seconds: float = 600.0) -> None:
        self.seconds = seconds
        self._max_bytes = max_bytes
        self._max_items = max_items
        self._items: dict[str, tuple[T, int]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T, *, size: int, suffix: str = "") -> str:
        """Keep a result `item` of `size` bytes, and return its random name, which ends with `suffix`; remove the oldest
        results if they are too many or too large.
        """
        name = secrets.token_urlsafe(24) + suffix
        self._items[name] = item, size
        while len(self._items) > 1 and (len(self._items) > self._max_items or self._used_bytes > self._max_bytes):
            del self._items[next(iter(self._items))]
        asyncio.get_running_loop().call_later(self.seconds, self._items.pop, name, None)
        return name

    def get(self, name: str) -> T | None:
        """Return the result of this name, or None if it is not kept any more."""
        return self._items[name][0] if name in self._items else None

    @property
    def _used_bytes(self) -> int:
        return sum(size for _, size in self._items.values())
