"""What a server says of itself: that it lives, whether it is ready, and what it serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.responses import Response

from heedful.serving.metrics import MEDIA_TYPE
from heedful.serving.registry import ModelRegistry
from heedful.serving.routes import RequestContext, Route


def iter_routes(_registry: ModelRegistry) -> Iterator[Route]:
    """Always there."""
    yield Route(path="/health", method="GET", handler=_answer_health, summary="whether models answer", public=True)
    yield Route(
        path="/metrics", method="GET", handler=_answer_metrics, summary="numbers for Prometheus", media_type=MEDIA_TYPE
    )


async def _answer_health(_context: RequestContext) -> Mapping[str, Any]:
    return {"status": "ok"}


async def _answer_metrics(context: RequestContext) -> Response:
    return Response(context.registry.metrics.render_text(), media_type=MEDIA_TYPE)
