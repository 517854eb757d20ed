"""What stands before every route: hosts, headers, sizes, and what every answer says to browsers."""

from __future__ import annotations

from typing import Any, final

from heedful.serving.house import House


@final
class Guard:
    """An application behind its limits."""

    def __init__(self, app: Any, house: House) -> None:
        self._app = app
        self._house = house

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """ASGI."""
        await self._app(scope, receive, send)
