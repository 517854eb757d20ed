"""Threads that work for requests, and how many requests may wait for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar, final

from heedful.serving.refusal import full
from heedful.serving.term import Term

T = TypeVar("T")


@final
class WorkQueue:
    """Requests that wait for a thread, or that one works for.

    Args:
        name: of the threads.
        threads: that work at one time, at most.
        most: requests that wait or are worked for.
    """

    def __init__(self, name: str, *, threads: int, most: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"heedful {name}")
        self._most = most
        self._count = 0

    @property
    def waiting(self) -> int:
        """Requests that wait, or are worked for."""
        return self._count

    async def run(self, term: Term, work: Callable[[], T]) -> T:
        """What `work` gives, which runs in a thread.

        Raises:
            Refusal: too much is waiting, or the term ended before the work began.
            Gone: the client has left.
        """
        with self.place():
            return await asyncio.wrap_future(self.begin(term, work))

    def begin(self, term: Term, work: Callable[[], T]) -> Future[T]:
        """Have a thread work, as soon as one is free, for a request that has a place."""

        def run() -> T:
            term.check()
            return work()

        return self._threads.submit(run)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Wait, or be worked for, while the block runs; `Refusal` where too many do."""
        if self._count >= self._most:
            raise full()
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    def close(self) -> None:
        """Begin nothing more; threads end as soon as they have nothing to do."""
        self._threads.shutdown(wait=False, cancel_futures=True)
