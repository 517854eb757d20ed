"""A server on this machine for tests that send requests as clients do."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.serving.load_models import load_registry
from heedful.serving.registry import ModelRegistry
from heedful.serving.server import HTTPServer, build_server
from heedful.serving.settings import ServerSettings


@dataclass(frozen=True)
class ServerResponse:
    """Response of a server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class LiveServer:
    """A running server."""

    registry: ModelRegistry
    port: int
    server: HTTPServer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self, path: str, body: Any = None, *, method: str | None = None, headers: Mapping[str, str] | None = None
    ) -> ServerResponse:
        """Send a request; an object is sent as JSON, bytes as they are."""
        sent = {"Content-Type": "application/json"} if body is not None else {}
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(
                method or ("GET" if body is None else "POST"), path, content, {**sent, **(headers or {})}
            )
            answer = connection.getresponse()
            return ServerResponse(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()


@contextmanager
def run_server(registry: ModelRegistry) -> Iterator[LiveServer]:
    """Run a server with the models of a registry during the block."""
    server = build_server(registry)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive() and time.monotonic() < until, "the server did not start"
        time.sleep(0.01)
    try:
        yield LiveServer(registry, int(server.servers[0].sockets[0].getsockname()[1]), server)
    finally:
        server.should_exit = True
        thread.join(20)


def open_registry(
    models: Mapping[str, Path | Mapping[str, Any]], *, workers: int = 0, **settings: Any
) -> ModelRegistry:
    """Load a registry of runs by name, for a server on a free port, whose models so many worker processes compute."""
    given = {name: {"run": str(each)} if isinstance(each, Path) else dict(each) for name, each in models.items()}
    table: dict[str, Any] = {"models": given, "port": 0, "device": "cpu", "log": "none", **settings}
    if not workers:
        return load_registry(ServerSettings.model_validate(table))
    from heedful.serving.workers.worker_pool import load_into_workers  # which reads torch

    registry = ModelRegistry(ServerSettings.model_validate(table), {}, {})
    load_into_workers(registry, lambda _: None, workers)
    registry.state = "ready"
    return registry
