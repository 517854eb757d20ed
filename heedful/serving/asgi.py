"""Build the ASGI application: all routes, behind the checks that every request passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final

from heedful.serving.app import ServerApp
from heedful.serving.registry import ModelRegistry
from heedful.serving.routes import Route

ROUTE_MODULES: Final = (
    "heedful.serving.libretranslate.interface",
    "heedful.serving.openai.interface",
    "heedful.serving.api.interface",
    "heedful.serving.health",
    "heedful.serving.openapi",
    "heedful.serving.page.page",
)
"""Modules with a function `iter_routes(registry)`, which yields the routes of one protocol."""


def collect_routes(registry: ModelRegistry) -> Sequence[Route]:
    """Return every route for which the registry has models."""

    def iter_all_routes() -> Iterator[Route]:
        """Yield the routes of all modules."""
        for name in ROUTE_MODULES:
            yield from import_module(name).iter_routes(registry)

    return tuple(iter_all_routes())


def build_app(registry: ModelRegistry) -> ServerApp:
    """Build an ASGI application that serves a registry; the caller loads the models and drains the requests."""
    app = ServerApp(registry)
    mount_routes(app, registry)
    return app


def mount_routes(app: ServerApp, registry: ModelRegistry) -> None:
    """Give the application the routes of a registry whose models are loaded."""
    app.set_routes(collect_routes(registry))
