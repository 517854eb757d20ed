"""A server in this process: from a house to a listening socket, and to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import uvicorn

from heedful.serving.app import application
from heedful.serving.house import House


def server_of(house: House) -> uvicorn.Server:
    """That listens as the settings say, once it `run`s."""
    settings = house.settings
    config = uvicorn.Config(
        application(house),
        host=settings.host,
        port=settings.port,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(settings.limits.idle),
        timeout_graceful_shutdown=int(settings.limits.drain),
    )
    return uvicorn.Server(config)


def serve(house: House, say: Callable[[str], None]) -> None:
    """Serves until a signal ends it."""
    server_of(house).run()


def port_of(server: Any) -> int:
    """On which it listens."""
    return int(server.servers[0].sockets[0].getsockname()[1])
