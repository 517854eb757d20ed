"""The page at /: files of this folder and some of the inspector's, as they are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Final

from starlette.responses import Response

from heedful.serving.house import House
from heedful.serving.refusal import missing
from heedful.serving.routes import Asked, Route

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_SHARED: Final = ("style.css", "dom.js", "colour.js")
"""Files of the inspector that the page uses too."""

_POLICY: Final = (
    "default-src 'self'; img-src 'self' data:; media-src data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
"""As every answer has it, but for pictures, sounds and clips that somebody chose, which the page shows."""


def routes(house: House) -> Iterator[Route]:
    """The page and what it is made of, where the settings want it; everybody may have it."""
    if not house.settings.page:
        return
    yield Route(path="/", method="GET", answer=_front, about="the page", free=True, group="page", media="text/html")
    yield Route(
        path="/page/{name}",
        method="GET",
        answer=_file,
        about="what the page is made of",
        free=True,
        group="page",
        media="text/plain",
    )


async def _front(asked: Asked) -> Response:
    answer = _sent(asked, "index.html")
    answer.headers["Content-Security-Policy"] = _POLICY
    return answer


async def _file(asked: Asked) -> Response:
    return _sent(asked, asked.request.path_params["name"])


def _sent(asked: Asked, name: str) -> Response:
    """A file, or that whoever asks has it already."""
    if name not in files():
        raise missing("the page has no such file")
    content = files()[name]
    headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"', "Cache-Control": "no-cache"}
    if asked.request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)


@cache
def files() -> Mapping[str, bytes]:
    """All files of the page by their names."""
    own = resources.files("heedful.serving") / "page"
    viewer = resources.files("heedful.inspection") / "viewer"
    found = [each for each in own.iterdir() if each.name.rpartition(".")[2] in _TYPES]
    return {each.name: each.read_bytes() for each in (*found, *(viewer / name for name in _SHARED))}
