"""Serve the web page at `/`: the files of this folder and some of the inspection viewer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Final

from starlette.responses import Response

from heedful.serving.http_errors import not_found
from heedful.serving.registry import ModelRegistry
from heedful.serving.routes import RequestContext, Route

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


def iter_routes(registry: ModelRegistry) -> Iterator[Route]:
    """Yield the public routes of the page and its files, if the settings enable it."""
    if not registry.settings.page:
        return
    yield Route(
        path="/",
        method="GET",
        handler=_answer_index,
        summary="the page",
        public=True,
        group="page",
        media_type="text/html",
    )
    yield Route(
        path="/page/{name}",
        method="GET",
        handler=_answer_file,
        summary="a file of the page",
        public=True,
        group="page",
        media_type="text/plain",
    )


async def _answer_index(context: RequestContext) -> Response:
    """Send the page with its content security policy."""
    response = _build_file_response(context, "index.html")
    response.headers["Content-Security-Policy"] = _CONTENT_POLICY
    return response


async def _answer_file(context: RequestContext) -> Response:
    """Send a file of the page."""
    return _build_file_response(context, context.request.path_params["name"])


def _build_file_response(context: RequestContext, name: str) -> Response:
    """Build the response with a file, or a 304 response if the client has it already."""
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
