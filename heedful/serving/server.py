"""Run an HTTP server in this process: open a socket, load the models in a thread, and shut down in order."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, final

import uvicorn

from heedful.errors import RecipeError
from heedful.memory_limits import count_cores, get_memory_limit
from heedful.serving.app import ServerApp, build_app, mount_health_routes, mount_routes
from heedful.serving.clients import ConnectionCounter
from heedful.serving.http_protocol import LimitedHttpProtocol
from heedful.serving.load_models import load_into, warm_up_models
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.request_log import log_event, use_server_logging
from heedful.serving.settings import ServerSettings
from heedful.serving.tracing import build_request_tracer

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_POLL_SECONDS: Final = 0.02
"""Seconds between checks of a condition."""
_CLOSE_SECONDS: Final = 3.0
"""Seconds for closing what remains after the last answer."""
_FLUSH_SECONDS: Final = 2.0
"""Seconds for sending the last spans."""
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
        loop="auto",  # uvloop, where there is one
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
        MissingExtraError: traces are requested, and their packages are not installed.
        RecipeError: the address cannot be used, or something cannot be served.
        RunError: a folder is missing or damaged.
    """
    registry = ModelRegistry(settings, {}, {})
    registry.tracer = build_request_tracer(settings, process="http", warn=log_event)
    app = ServerApp(registry)
    mount_health_routes(app, registry)
    server = build_server(registry, app)
    _raise_file_limit(settings.limits.connections)
    with use_server_logging(settings), open_socket(settings) as server_socket:
        loader = ModelLoader(registry, app, address=_format_url(server_socket), log=log, on_failure=server.request_stop)
        loader.start()
        server.run(sockets=[server_socket])
    is_finished = close_models(registry)
    if registry.tracer is not None:
        registry.tracer.flush(_FLUSH_SECONDS)
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


_PROCESS_BYTES: Final = 200 << 20
"""Bytes of memory that a process needs besides its models."""
_MAX_PROCESSES_PER_CORE: Final = 4
"""Maximum number of processes for each core; more would only wait for each other."""
_ADVICE: Final = "take fewer, or leave --processes out"
_DEFAULT_PROCESSES: Final = 2
"""Default number of worker processes on a CPU."""
_MAX_THREAD_SECONDS: Final = 5.0
"""Seconds that threads have to end when no answer is awaited; worker processes are killed before."""


def require_capacity(settings: ServerSettings, num_processes: int) -> None:
    """Raise a `RecipeError` if this machine has not enough cores or memory for this number of processes.

    Args:
        settings: with the models that each process loads.
        num_processes: number of processes.

    Raises:
        RecipeError: there are too many.
    """
    max_processes = _MAX_PROCESSES_PER_CORE * count_cores()
    if num_processes > max_processes:
        raise RecipeError(
            f"processes: {num_processes:,} are too many; this machine has {count_cores():,} cores, which allow at most "
            f"{max_processes:,}: {_ADVICE}"
        )
    total_memory = get_memory_limit()
    needed = num_processes * (_PROCESS_BYTES + sum(_weights_size(model.run) for model in settings.models.values()))
    if total_memory is not None and needed > total_memory:
        raise RecipeError(
            f"processes: {num_processes:,} need about {needed >> 20:,} MiB, each with all models, and this machine has "
            f"{total_memory >> 20:,} MiB: {_ADVICE}"
        )


def _weights_size(run: Path) -> int:
    """Return the bytes of the largest weights file in a run folder, since a process loads one checkpoint; 0 if there is
    none.
    """
    try:
        return max((file.stat().st_size for file in run.rglob("*.safetensors")), default=0)
    except OSError:
        return 0


@final
class ModelLoader:
    """Loads and warms up the models in a thread, while the server already answers 503.

    Args:
        registry: that receives the models.
        app: that gets their routes afterwards.
        address: of the server, for the log.
        log: called with what is served.
        on_failure: called if loading fails.

    Attributes:
        error: why loading failed, or None.
    """

    def __init__(
        self,
        registry: ModelRegistry,
        app: ServerApp,
        *,
        address: str,
        log: Callable[[str], None],
        on_failure: Callable[[], None],
    ) -> None:
        self.error: Exception | None = None
        self._registry = registry
        self._app = app
        self._address = address
        self._log = log
        self._on_failure = on_failure
        self._thread = threading.Thread(target=self.run, name="heedful loading", daemon=True)

    def start(self) -> None:
        """Start the loading thread."""
        self._thread.start()

    def run(self) -> None:
        """Load, warm up and mount the models, then set the server ready; keep the error if that fails."""
        try:
            self._load_models()
            warm_up_models(self._registry, self._log)
            mount_routes(self._app, self._registry)
            gc.freeze()  # what is loaded stays, so collections need not look at it
        except Exception as error:
            self.error = error
            self._on_failure()
            return
        if self._registry.state == "loading":
            for name, model in self._registry.models.items():
                self._log(_describe_model(name, model))
            for name in self._registry.indices:
                self._log(f"{name}: index")
            self._log(self._address)
            self._registry.state = "ready"
            self._log("ready")

    def _load_models(self) -> None:
        """Load the models in this process or in worker processes, as the settings say."""
        settings = self._registry.settings
        num_processes = choose_num_processes(settings)
        if settings.processes is not None:
            require_capacity(settings, num_processes)
        if not num_processes:
            load_into(self._registry, self._log)
            return
        from heedful.serving.workers.worker_pool import load_into_workers  # which reads torch

        load_into_workers(self._registry, self._log, num_processes)


def choose_num_processes(settings: ServerSettings) -> int:
    """Return how many worker processes compute: as the settings say, or two on a CPU with several cores, else 0."""
    if settings.processes is not None:
        return settings.processes
    from heedful.runs.device import find_device  # which reads torch

    return _DEFAULT_PROCESSES if count_cores() > 1 and find_device(settings.device).type == "cpu" else 0


def close_models(registry: ModelRegistry) -> bool:
    """Close all models and indices of a registry, and return whether their threads have ended in time.

    Python would otherwise wait at exit for threads whose work is not wanted any more.
    """
    registry.file_queue.close()
    for model in (*registry.models.values(), *registry.indices.values()):
        threading.Thread(target=model.close, daemon=True).start()
    deadline = time.monotonic() + _MAX_THREAD_SECONDS
    while _has_live_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not _has_live_threads()


def _has_live_threads() -> bool:
    """Return whether threads of this package are still running."""
    return any(thread.name.startswith("heedful ") for thread in threading.enumerate())


def _describe_model(name: str, model: LoadedModel[object]) -> str:
    languages = " to ".join(language for language in model.language_pair if language is not None)
    return f"{name}: {type(model.predictor).__name__}" + (f", {languages}" if languages else "")
