"""Run an HTTP server in this process: open a socket, load the models, and shut down in order."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, Final, final

import uvicorn

from heedful.errors import RecipeError
from heedful.serving.app import ServerApp, build_app
from heedful.serving.clients import ConnectionCounter
from heedful.serving.http_protocol import LimitedHttpProtocol
from heedful.serving.registry import ModelRegistry
from heedful.serving.request_log import use_server_logging
from heedful.serving.settings import ServerSettings
from heedful.serving.startup import ModelLoader, close_models

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_POLL_SECONDS: Final = 0.02
"""Seconds between checks of a condition."""
_CLOSE_SECONDS: Final = 3.0
"""Seconds for closing what remains after the last answer."""
_BACKLOG: Final = 1_024
_EXTRA_FILES: Final = 512
"""Open files besides those of connections."""


@final
class HTTPServer(uvicorn.Server):
    """Uvicorn server that serves a registry until a signal (in the main thread) or `request_stop` ends it.

    The first signal lets running requests finish and answers 503 to new ones; the second ends the process at
    once.
    """

    def __init__(self, config: uvicorn.Config, registry: ModelRegistry) -> None:
        super().__init__(config)
        self._registry = registry

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen on the sockets; a registry that was served before becomes ready again."""
        if self._registry.state == "ending":
            self._registry.state = "ready"
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listening sockets, finish running requests within the drain time, then close everything."""
        self._registry.state = "ending"
        for server in self.servers:
            server.close()
        for listening_socket in sockets or ():
            listening_socket.close()
        await self._wait_until(lambda: not self._is_busy, timeout=self._registry.settings.limits.drain)
        state = self.server_state
        for task in list(state.tasks):
            task.cancel()
        await self._wait_until(lambda: not state.tasks, timeout=_CLOSE_SECONDS)
        for connection in list(state.connections):
            connection.shutdown()
        await self._wait_until(lambda: not state.connections, timeout=_CLOSE_SECONDS)
        for connection in list(state.connections):
            connection.transport.abort()

    def request_stop(self) -> None:
        """Ask the server to shut down soon; callable from any thread."""
        self._registry.state = "ending"
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while the server runs.

        Unlike uvicorn's method, it does not raise them again afterwards, since this shutdown is not a failure.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        old_handlers = {signal_number: signal.signal(signal_number, self.handle_exit) for signal_number in _SIGNALS}
        try:
            yield
        finally:
            for signal_number, handler in old_handlers.items():
                signal.signal(signal_number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down on the first signal, and end the process on the second."""
        if self.should_exit:
            os._exit(128 + sig)
        self.request_stop()

    @property
    def _is_busy(self) -> bool:
        """Whether a request is arriving or being answered."""
        connections: Any = self.server_state.connections
        return bool(self.server_state.tasks) or any(connection.is_busy for connection in connections)

    async def _wait_until(self, condition: Callable[[], bool], *, timeout: float) -> None:
        """Wait until a condition holds, but at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not condition() and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)


def build_server(registry: ModelRegistry, app: ServerApp | None = None) -> HTTPServer:
    """Build a server that listens as the settings say once it is `run`.

    Args:
        registry: that is served.
        app: that routes to it; by default one whose routes are mounted already.
    """
    settings = registry.settings
    connection_limiter = ConnectionCounter(settings)
    protocol_factory: Any = partial(
        LimitedHttpProtocol,
        limits=settings.limits,
        connection_counter=connection_limiter,
        on_reject=registry.metrics.count_rejected_connection,
    )
    config = uvicorn.Config(
        app or build_app(registry),
        host=settings.host,
        port=settings.port,
        loop="asyncio",
        http=protocol_factory,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # this server logs requests itself
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=settings.limits.idle,  # type: ignore[arg-type]  # fractions of seconds work too
        backlog=_BACKLOG,
    )
    return HTTPServer(config, registry)


def run_server(settings: ServerSettings, log: Callable[[str], None]) -> bool:
    """Listen at once, answer when the models are loaded and warm, and run until a signal.

    Earlier requests are answered with 503.

    Args:
        settings: of the server.
        log: called with what is served, and where.

    Returns:
        Whether all worker threads have ended.

    Raises:
        RecipeError: the address cannot be used, or something cannot be served.
        RunError: a folder is missing or damaged.
    """
    registry = ModelRegistry(settings, {}, {})
    app = ServerApp(registry)
    server = build_server(registry, app)
    _raise_file_limit(settings.limits.connections)
    with use_server_logging(settings), open_socket(settings) as server_socket:
        loader = ModelLoader(registry, app, address=_format_url(server_socket), log=log, on_failure=server.request_stop)
        loader.start()
        server.run(sockets=[server_socket])
    is_finished = close_models(registry)
    if loader.error is not None:
        raise loader.error
    return is_finished


def open_socket(settings: ServerSettings) -> socket.socket:
    """Open a listening socket at the address in the settings.

    Raises:
        RecipeError: the address cannot be used.
    """
    host, port = settings.host.strip("[]"), settings.port
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError:
        raise RecipeError(
            f"host {host!r}: is not an address of this machine; take 127.0.0.1, or 0.0.0.0 for all addresses"
        ) from None
    try:
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except PermissionError:
        raise RecipeError(f"port {port}: only the administrator may listen there; take one above 1023") from None
    except OSError as error:
        code = error.errno or 0
        reason = "another program listens there" if code == errno.EADDRINUSE else os.strerror(code).lower()
        raise RecipeError(
            f"{host}, port {port}: {reason}; choose another --port, such as 0, which selects a free one"
        ) from None


def _raise_file_limit(num_connections: int) -> None:
    """Raise the process's limit of open files, so that each connection can have one."""
    if sys.platform == "win32":
        return
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit

    soft, hard = getrlimit(RLIMIT_NOFILE)
    required = 2 * num_connections + _EXTRA_FILES
    if soft != RLIM_INFINITY and soft < required:
        setrlimit(RLIMIT_NOFILE, (required if hard == RLIM_INFINITY else min(required, hard), hard))


def _format_url(server_socket: socket.socket) -> str:
    host, port = server_socket.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
