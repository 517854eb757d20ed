"""To come."""

from __future__ import annotations

from collections.abc import Iterator

from heedful.serving.house import House
from heedful.serving.routes import Route


def routes(house: House) -> Iterator[Route]:
    """None yet."""
    yield from ()
