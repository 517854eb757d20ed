"""What a server says of itself: that it lives, whether it is ready, and what it serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heedful.serving.house import House
from heedful.serving.routes import Asked, Route


def routes(house: House) -> Iterator[Route]:
    """Always there."""
    yield Route(path="/health", method="GET", answer=_health, about="whether models answer", free=True)


async def _health(_asked: Asked) -> Mapping[str, Any]:
    return {"status": "ok"}
