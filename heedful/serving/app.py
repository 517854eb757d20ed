"""The application: every route, behind what guards all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final

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
    guard.lead(routes_of(house))
