"""A server in this process: from settings to a listening socket, to models that answer, and to its end."""

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
from heedful.serving.app import application
from heedful.serving.crowds import Crowds
from heedful.serving.guard import Guard
from heedful.serving.house import House
from heedful.serving.loading import Loading, leave
from heedful.serving.logs import logging_as
from heedful.serving.protocol import Bounded
from heedful.serving.settings import Settings

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_TICK: Final = 0.02
"""Seconds after which it is looked again whether all is done."""
_PARTING: Final = 3.0
"""Seconds for what remains when no answer is waited for any more."""
_BACKLOG: Final = 1_024
_FILES: Final = 512
"""That are open besides connections."""


@final
class Server(uvicorn.Server):
    """Serves a house until it is told to end, by a signal where it runs in the main thread.

    The first signal lets what is under way be answered, and tells who asks later to come again; the second one ends at
    once.
    """

    def __init__(self, config: uvicorn.Config, house: House) -> None:
        super().__init__(config)
        self._house = house

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens; a house that was served before is open again."""
        if self._house.state == "ending":
            self._house.state = "ready"
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """No new connections; those that are here get their answers while there is time."""
        self._house.state = "ending"
        for server in self.servers:
            server.close()
        for each in sockets or ():
            each.close()
        await self._until(lambda: not self._is_busy, seconds=self._house.settings.limits.drain)
        state = self.server_state
        for task in list(state.tasks):
            task.cancel()
        await self._until(lambda: not state.tasks, seconds=_PARTING)
        for connection in list(state.connections):
            connection.shutdown()
        await self._until(lambda: not state.connections, seconds=_PARTING)
        for connection in list(state.connections):
            connection.transport.abort()

    def stop(self) -> None:
        """Has it end soon, from any thread."""
        self._house.state = "ending"
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Our end is no failure, so signals are not raised again behind it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in _SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal came."""
        if self.should_exit:
            os._exit(128 + sig)
        self.stop()

    @property
    def _is_busy(self) -> bool:
        connections: Any = self.server_state.connections
        return bool(self.server_state.tasks) or any(each.is_busy for each in connections)

    async def _until(self, done: Callable[[], bool], *, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not done() and time.monotonic() < until:
            await asyncio.sleep(_TICK)


def server_of(house: House, guard: Guard | None = None) -> Server:
    """That listens as the settings say, once it `run`s.

    Args:
        house: that is served.
        guard: that leads to it, as soon as it does; at once unless given.
    """
    settings = house.settings
    crowds = Crowds(settings)
    protocol: Any = partial(Bounded, limits=settings.limits, crowds=crowds, turned=house.meters.turned_away)
    config = uvicorn.Config(
        guard or application(house),
        host=settings.host,
        port=settings.port,
        loop="asyncio",
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # what it says of requests, we say
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=settings.limits.idle,  # type: ignore[arg-type]  # parts of seconds are as good
        backlog=_BACKLOG,
    )
    return Server(config, house)


def serve(settings: Settings, say: Callable[[str], None]) -> bool:
    """Listens at once, answers when the models are loaded and warm, and goes on until a signal ends it.

    Whoever asks before is told to come again.

    Args:
        settings: of all.
        say: told what is served, and where.

    Returns:
        Whether nothing is computed any more.

    Raises:
        RecipeError: the address cannot be had, or something cannot be served.
        RunError: a folder is missing or damaged.
    """
    house = House(settings, {}, {})
    guard = Guard(house)
    server = server_of(house, guard)
    _allow_files(settings.limits.connections)
    with logging_as(settings), listen(settings) as listening:
        loading = Loading(house, guard, address=_address(listening), say=say, failed=server.stop)
        loading.start()
        server.run(sockets=[listening])
    ended = leave(house)
    if loading.error is not None:
        raise loading.error
    return ended


def listen(settings: Settings) -> socket.socket:
    """A socket at the address of the settings.

    Raises:
        RecipeError: it cannot be had.
    """
    host, port = settings.host.strip("[]"), settings.port
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError:
        raise RecipeError(f"host {host!r}: is no address here; take 127.0.0.1, or 0.0.0.0 for every one") from None
    try:
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except PermissionError:
        raise RecipeError(f"port {port}: only the administrator may listen there; take one above 1023") from None
    except OSError as error:
        code = error.errno or 0
        why = "another program listens there" if code == errno.EADDRINUSE else os.strerror(code).lower()
        raise RecipeError(f"{host}, port {port}: {why}; choose another --port, as 0, which takes a free one") from None


def port_of(server: Any) -> int:
    """On which it listens."""
    return int(server.servers[0].sockets[0].getsockname()[1])


def _allow_files(connections: int) -> None:
    """Lets the process have a file for each connection, of which some systems allow it few unless it asks."""
    if sys.platform == "win32":
        return
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit

    soft, hard = getrlimit(RLIMIT_NOFILE)
    wanted = 2 * connections + _FILES
    if soft != RLIM_INFINITY and soft < wanted:
        setrlimit(RLIMIT_NOFILE, (wanted if hard == RLIM_INFINITY else min(wanted, hard), hard))


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
