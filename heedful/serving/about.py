"""What a server says of itself: that it lives, whether it is ready, and what it serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.responses import Response

from heedful.serving.house import House
from heedful.serving.meters import MEDIA
from heedful.serving.routes import Asked, Route


def routes(_house: House) -> Iterator[Route]:
    """Always there."""
    yield Route(path="/health", method="GET", answer=_health, about="whether models answer", free=True)
    yield Route(path="/metrics", method="GET", answer=_metrics, about="numbers for Prometheus", media=MEDIA)


async def _health(_asked: Asked) -> Mapping[str, Any]:
    return {"status": "ok"}


async def _metrics(asked: Asked) -> Response:
    return Response(asked.house.meters.text(), media_type=MEDIA)
