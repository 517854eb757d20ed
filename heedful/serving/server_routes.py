"""Routes about the server itself: its health, its metrics, and the web page with its files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from starlette.responses import Response

from heedful.serving.http_errors import not_found
from heedful.serving.metrics import MEDIA_TYPE as METRICS_TYPE
from heedful.serving.registry import ModelRegistry
from heedful.serving.routes import RequestContext, declare_route

_MEDIA_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_VIEWER_FILES: Final = ("style.css", "dom.js", "colour.js")
"""Files of the inspection viewer that the page uses too."""

_CONTENT_POLICY: Final = (
    "default-src 'self'; img-src 'self' data:; media-src data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
"""Content security policy of the page: as for every answer, but the user's own pictures, sounds and clips may be
shown."""


def _has_page(registry: ModelRegistry) -> bool:
    return registry.settings.page


@declare_route("/health", "whether models answer", method="GET", public=True)
async def answer_health(_context: RequestContext) -> Mapping[str, Any]:
    """Answer that the server is running."""
    return {"status": "ok"}


@declare_route("/metrics", "numbers for Prometheus", method="GET", media_type=METRICS_TYPE)
async def answer_metrics(context: RequestContext) -> Response:
    """Return all metrics in the Prometheus text format."""
    return Response(context.registry.metrics.render_text(), media_type=METRICS_TYPE)


@declare_route("/", "the page", method="GET", public=True, group="page", media_type="text/html", is_served=_has_page)
async def _answer_index(context: RequestContext) -> Response:
    response = _build_file_response(context, "index.html")
    response.headers["Content-Security-Policy"] = _CONTENT_POLICY
    return response


@declare_route(
    "/page/{name}",
    "a file of the page",
    method="GET",
    public=True,
    group="page",
    media_type="text/plain",
    is_served=_has_page,
)
async def _answer_file(context: RequestContext) -> Response:
    return _build_file_response(context, context.request.path_params["name"])


def _build_file_response(context: RequestContext, name: str) -> Response:
    """Build the response with the file of this name, or a 304 response if the client of the request has it already;
    raise an `HTTPError` if the page has no such file.
    """
    if name not in load_page_files():
        raise not_found("the page has no such file")
    content = load_page_files()[name]
    headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"', "Cache-Control": "no-cache"}
    if context.request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_MEDIA_TYPES[name.rpartition(".")[2]], headers=headers)


@cache
def load_page_files() -> Mapping[str, bytes]:
    """Return the content of all files of the page by name."""
    page_folder = resources.files("heedful.serving") / "page"
    viewer_folder = resources.files("heedful.inspection") / "viewer"
    page_files = [file for file in page_folder.iterdir() if file.name.rpartition(".")[2] in _MEDIA_TYPES]
    return {file.name: file.read_bytes() for file in (*page_files, *(viewer_folder / name for name in _VIEWER_FILES))}
