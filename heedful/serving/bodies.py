"""The bodies of requests that are held in memory, whose sum is bounded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, final

from heedful.serving.refusal import crowded

Receive: TypeAlias = Callable[[], Awaitable[Any]]
SMALL: Final = 65_536
"""Bytes of a body that do not count: as many as a connection may have in its buffers anyway."""
_PATIENCE: Final = 1.0
"""Seconds that a body may arrive before it can lose its place to a faster one."""


@final
class BodyBudget:
    """Bytes of all bodies larger than `SMALL`, from their arrival until their requests are answered.

    Where there is no room, the unfinished body that arrives most slowly loses its place, and its request is refused;
    that may be the one that asks for room.

    Args:
        capacity: bytes that are held at one time, at most.
        clock: tells seconds.
    """

    def __init__(self, capacity: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = capacity
        self._clock = clock
        self._used = 0
        self._arriving: set[Body] = set()

    @property
    def used(self) -> int:
        """Bytes that are held now."""
        return self._used

    def body(self) -> Body:
        """The body of a request that begins to arrive."""
        return Body(self, self._clock())

    def hold(self, body: Body, size: int) -> None:
        """Hold more bytes of a body that has not arrived completely.

        Raises:
            Refusal: there is no room (503).
        """
        self._arriving.add(body)
        while self._used + size > self._capacity:
            slowest = self._slowest()
            if slowest is None or slowest is body:
                raise crowded()
            slowest.lose()
        self._used += size
        body.held += size

    def complete(self, body: Body) -> None:
        """All of a body is there, so that it cannot lose its place any more."""
        self._arriving.discard(body)

    def release(self, body: Body) -> None:
        """Nothing of a body is held any more."""
        self._arriving.discard(body)
        self._used -= body.held
        body.held = 0

    def _slowest(self) -> Body | None:
        now = self._clock()
        late = [each for each in self._arriving if now - each.began >= _PATIENCE]
        return min(late, key=lambda each: each.received / (now - each.began), default=None)


@final
class Body:
    """The body of one request.

    Args:
        budget: of all.
        began: when it began to arrive.

    Attributes:
        received: bytes that have arrived.
        held: bytes that the budget counts.
    """

    def __init__(self, budget: BodyBudget, began: float) -> None:
        self.began = began
        self.received = 0
        self.held = 0
        self._budget = budget
        self._is_lost = False
        self._losing = asyncio.Event()

    async def receive(self, receive: Receive) -> Any:
        """The next message of ASGI.

        Raises:
            Refusal: there is no room for the body (503), or it lost its place while it was waited for.
        """
        message = await (self._contested(receive) if self.held else receive())
        size = len(message.get("body", b""))
        if self._is_lost:
            raise crowded()
        self.received += size
        if size and self.received > SMALL:
            self._budget.hold(self, self.received - self.held)
        if not message.get("more_body", False):
            self._budget.complete(self)
        return message

    def lose(self) -> None:
        """Give up the place: what has arrived is not waited for any more."""
        self._is_lost = True
        self._budget.release(self)
        self._losing.set()

    def release(self) -> None:
        """The request is answered."""
        self._budget.release(self)

    async def _contested(self, receive: Receive) -> Any:
        """The next message, unless the place is lost before it comes."""
        coming = asyncio.ensure_future(receive())
        losing = asyncio.ensure_future(self._losing.wait())
        try:
            await asyncio.wait({coming, losing}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                raise crowded()
            return coming.result()
        finally:
            coming.cancel()
            losing.cancel()
