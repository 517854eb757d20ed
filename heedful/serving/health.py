"""Routes about the server itself: `/health` and `/metrics`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.responses import Response

from heedful.serving.metrics import MEDIA_TYPE
from heedful.serving.registry import ModelRegistry
from heedful.serving.routes import RequestContext, Route


def iter_routes(_registry: ModelRegistry) -> Iterator[Route]:
    """Yield the health and metrics routes, which every server has."""
    yield Route(path="/health", method="GET", handler=_answer_health, summary="whether models answer", public=True)
    yield Route(
        path="/metrics", method="GET", handler=_answer_metrics, summary="numbers for Prometheus", media_type=MEDIA_TYPE
    )


async def _answer_health(_context: RequestContext) -> Mapping[str, Any]:
    """Answer that the server is running."""
    return {"status": "ok"}


async def _answer_metrics(context: RequestContext) -> Response:
    """Return all metrics in the Prometheus text format."""
    return Response(context.registry.metrics.render_text(), media_type=MEDIA_TYPE)
