"""The application: every route, behind what guards all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as Path

from heedful.serving.guard import Guard
from heedful.serving.house import House
from heedful.serving.routes import Route

INTERFACES: Final = (
    "heedful.serving.libretranslate.interface",
    "heedful.serving.openai.interface",
    "heedful.serving.own.interface",
    "heedful.serving.about",
    "heedful.serving.openapi",
    "heedful.serving.page.page",
)
"""Modules that have `routes(house)`, the routes of a protocol as far as there are models for them."""


def routes_of(house: House) -> Sequence[Route]:
    """All that may be asked of a house."""

    def found() -> Iterator[Route]:
        for name in INTERFACES:
            yield from import_module(name).routes(house)

    return tuple(found())


def application(house: House) -> Guard:
    """An ASGI application that serves a house; loading and draining are its owner's."""
    guard = Guard(house)
    lead(guard, house)
    return guard


def lead(guard: Guard, house: House) -> None:
    """Leads who comes past the guard to all that may be asked of a house, whose models are there."""
    routes = routes_of(house)
    by_path: dict[str, dict[str, Route]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = route
    paths = [Path(path, _endpoint(house, methods), methods=[*methods]) for path, methods in by_path.items()]
    app = Starlette(routes=paths, exception_handlers={404: _unknown, 405: _method})
    app.router.redirect_slashes = False
    guard.lead(app, routes)


def _endpoint(house: House, methods: dict[str, Route]) -> Any:
    async def answer(request: Request) -> Response:
        return await methods["GET" if request.method == "HEAD" else request.method].respond(house, request)

    return answer


async def _unknown(_request: Request, _error: Exception) -> Response:
    return JSONResponse({"error": "there is nothing at this path; GET /spec lists what may be asked"}, status_code=404)


async def _method(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "the router says which methods there are"
    message = f"{request.method}: not for this path; GET /spec lists what may be asked"
    return JSONResponse({"error": message}, 405, headers=error.headers)
