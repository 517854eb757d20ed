"""Thread pools that work for requests, with a limit on how many may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar, final

from heedful.serving.deadline import RequestDeadline
from heedful.serving.http_errors import queue_full

T = TypeVar("T")


@final
class WorkQueue:
    """A thread pool with a limit on the requests that wait or are worked for.

    Args:
        name: of the threads.
        threads: number of threads.
        max_requests: requests that may wait or be worked for at the same time.
    """

    def __init__(self, name: str, *, threads: int, max_requests: int) -> None:
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
        """Submit `work` to the threads, for a request that has a slot."""

        def run_if_wanted() -> T:
            """Run the work, unless the deadline is over."""
            deadline.raise_if_over()
            return work()

        return self._threads.submit(run_if_wanted)

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
