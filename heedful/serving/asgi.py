"""The application: every route, behind what guards all of them."""

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
"""Modules that have `iter_routes(registry)`, the routes of a protocol as far as there are models for them."""


def collect_routes(registry: ModelRegistry) -> Sequence[Route]:
    """All that may be asked of a house."""

    def iter_all_routes() -> Iterator[Route]:
        for name in ROUTE_MODULES:
            yield from import_module(name).iter_routes(registry)

    return tuple(iter_all_routes())


def build_app(registry: ModelRegistry) -> ServerApp:
    """An ASGI application that serves a house; loading and draining are its owner's."""
    app = ServerApp(registry)
    mount_routes(app, registry)
    return app


def mount_routes(app: ServerApp, registry: ModelRegistry) -> None:
    """Leads who comes past the guard to all that may be asked of a house, whose models are there."""
    app.set_routes(collect_routes(registry))
