"""Threads that work for requests, and how many requests may wait for one."""

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
    """Requests that wait for a thread, or that one works for.

    Args:
        name: of the threads.
        threads: that work at one time, at most.
        max_requests: requests that wait or are worked for.
    """

    def __init__(self, name: str, *, threads: int, max_requests: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"heedful {name}")
        self._max_requests = max_requests
        self._count = 0

    @property
    def num_waiting(self) -> int:
        """Requests that wait, or are worked for."""
        return self._count

    async def run(self, deadline: RequestDeadline, work: Callable[[], T]) -> T:
        """What `work` gives, which runs in a thread.

        Raises:
            Refusal: too much is waiting, or the term ended before the work began.
            Gone: the client has left.
        """
        with self.reserve_slot():
            return await asyncio.wrap_future(self.submit(deadline, work))

    def submit(self, deadline: RequestDeadline, work: Callable[[], T]) -> Future[T]:
        """Have a thread work, as soon as one is free, for a request that has a place."""

        def run_if_wanted() -> T:
            deadline.raise_if_over()
            return work()

        return self._threads.submit(run_if_wanted)

    @contextmanager
    def reserve_slot(self) -> Iterator[None]:
        """Wait, or be worked for, while the block runs; `HTTPError` where too many do."""
        if self._count >= self._max_requests:
            raise queue_full()
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    def close(self) -> None:
        """Begin nothing more; threads end as soon as they have nothing to do."""
        self._threads.shutdown(wait=False, cancel_futures=True)
