"""Limits the memory for the bodies of all requests together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, final

from heedful.serving.http_errors import bodies_too_large

ReceiveCallable: TypeAlias = Callable[[], Awaitable[Any]]
UNCOUNTED_BYTES: Final = 65_536
"""Bytes of a body that are not counted; a connection may have as many in its buffers anyway."""
_MIN_ARRIVAL_SECONDS: Final = 1.0
"""Seconds that a body may arrive before it can be dropped for a faster one."""


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
        """Count further bytes of a body that is still arriving.

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
        """Return the unfinished body with the lowest arrival rate, or None."""
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
        """Receive the next ASGI message and count its bytes.

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
        """Wait for the next ASGI message, and raise an `HTTPError` if the body is dropped first."""
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
