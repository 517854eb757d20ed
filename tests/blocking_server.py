"""A server with a model that blocks until a test releases it, and routes that call this model."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from live_server import LiveServer, run_server
from starlette.responses import Response, StreamingResponse

from heedful.serving import app, health, server_routes
from heedful.serving.deadline import run_interruptible
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.routes import RequestContext, Route, StrictMessage
from heedful.serving.settings import ServerSettings
from heedful.serving.sse import EventFormat, stream_response

WAIT = 20.0
"""Seconds until a test fails."""
WORDING = EventFormat[str](
    event=lambda text: f"data: {text}\n\n", error=lambda error: f"error: {error.code}\n\n", end="end\n\n"
)


class TextMessage(StrictMessage):
    text: str = ""


@dataclass
class BlockingPredictor:
    """Predictor that returns the text when `go` is set; `begun` counts the calls."""

    go: threading.Event = field(default_factory=threading.Event)
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    fails: BaseException | None = None

    def answer(self, text: str) -> str:
        self.begun.release()
        assert self.go.wait(WAIT), "the test did not set go"
        if self.fails is not None:
            raise self.fails
        return text

    def wait_for_call(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.begun.acquire(timeout=WAIT), "the predictor was not called"


@dataclass(frozen=True)
class BlockingServer:
    """A running server and its predictor."""

    live: LiveServer
    predictor: BlockingPredictor

    @property
    def registry(self) -> ModelRegistry:
        return self.live.registry

    def ask_in_thread(self, *given: Any, **named: Any) -> ThreadResult:
        """Send a request in a separate thread."""
        return ThreadResult(lambda: self.live.ask(*given, **named))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.live.port), timeout=WAIT)


class ThreadResult:
    """Result of a function that runs in a separate thread."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._found: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._found.append(work()), daemon=True)
        self._thread.start()

    def get(self) -> Any:
        self._thread.join(WAIT)
        assert self._found, "no result arrived"
        return self._found[0]


def build_registry(predictor: BlockingPredictor, **settings: Any) -> ModelRegistry:
    given = ServerSettings.model_validate({"port": 0, "log": "none", **settings})
    registry = ModelRegistry(given, {}, {})
    registry.models["held"] = LoadedModel("held", predictor, given)
    registry.state = "ready"
    return registry


def build_routes(registry: ModelRegistry) -> Iterator[Route]:
    """Build the routes of the tests.

    `/held` and `/waiting` answer when the predictor is released, and `/stream` sends its second part then. `/endless`
    streams many parts and releases `begun` at the end. `/watched` sends events, `/file` accepts files, and `/parsing`
    never ends.
    """

    async def answer_blocked(context: RequestContext, message: TextMessage) -> Mapping[str, Any]:
        model = registry.get_model(BlockingPredictor, None, action="waits")
        return {"text": await model.run(context.deadline, lambda: model.predictor.answer(message.text))}

    async def stream_parts(context: RequestContext, message: TextMessage) -> StreamingResponse:
        model = registry.get_model(BlockingPredictor, None, action="waits")

        async def generate_parts() -> AsyncIterator[bytes]:
            yield b"begun\n"
            yield (await model.run(context.deadline, lambda: model.predictor.answer(message.text))).encode()

        return StreamingResponse(generate_parts(), media_type="text/plain")

    async def answer_size(_context: RequestContext, message: TextMessage) -> Mapping[str, Any]:
        return {"size": len(message.text)}

    async def answer_large(_context: RequestContext, message: TextMessage) -> Mapping[str, Any]:
        return {"text": message.text * 1_000_000}

    async def answer_without_body(context: RequestContext) -> Mapping[str, Any]:
        return await answer_blocked(context, TextMessage(text="waited"))

    async def stream_endlessly(context: RequestContext) -> StreamingResponse:
        async def generate_parts() -> AsyncIterator[bytes]:
            predictor = registry.get_model(BlockingPredictor, None, action="waits").predictor
            try:
                for _ in range(1_000):
                    yield b"a" * 100_000
            finally:
                predictor.begun.release()

        return StreamingResponse(generate_parts(), media_type="text/plain")

    async def parse_endlessly(context: RequestContext) -> Mapping[str, Any]:
        predictor = registry.get_model(BlockingPredictor, None, action="waits").predictor

        def parse() -> None:
            predictor.begun.release()
            while True:
                sum(range(100))

        await registry.file_queue.run(context.deadline, partial(run_interruptible, context.deadline, parse))
        return {}

    async def stream_events(context: RequestContext) -> Response:
        model = registry.get_model(BlockingPredictor, None, action="waits")

        def run_model(say: Callable[[str], None]) -> None:
            say("begun")
            say(model.predictor.answer("a"))

        return await stream_response(context, model, run_model, event_format=WORDING)

    yield Route(path="/held", handler=answer_blocked, summary="", request_type=TextMessage)
    yield Route(path="/watched", method="GET", handler=stream_events, summary="")
    yield Route(path="/endless", method="GET", handler=stream_endlessly, summary="")
    yield Route(path="/parsing", method="GET", handler=parse_endlessly, summary="")
    yield Route(path="/waiting", method="GET", handler=answer_without_body, summary="")
    yield Route(path="/stream", handler=stream_parts, summary="", request_type=TextMessage)
    yield Route(path="/size", handler=answer_size, summary="", request_type=TextMessage)
    yield Route(path="/file", handler=answer_size, summary="", request_type=TextMessage, accepts_files=True)
    yield Route(path="/large", handler=answer_large, summary="", request_type=TextMessage)
    yield from (health.answer_health, health.answer_liveness, health.answer_readiness, server_routes.answer_metrics)


@contextmanager
def run_blocking_server(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Iterator[BlockingServer]:
    """Run a server with one blocking model during the block."""
    monkeypatch.setattr(app, "collect_routes", lambda registry: tuple(build_routes(registry)))
    predictor = BlockingPredictor()
    registry = build_registry(predictor, **settings)
    try:
        with run_server(registry) as live:
            yield BlockingServer(live, predictor)
    finally:
        predictor.go.set()
        registry.models["held"].close()


def read_until_closed(connection: socket.socket) -> bytes:
    """Read until the other side closes the connection."""
    found = b""
    while part := connection.recv(65_536):
        found += part
    return found


def format_request(path: str = "/health", *, method: str = "GET", body: bytes = b"", **headers: str) -> bytes:
    """Format a request as the bytes that are sent."""
    named = {"Host": "localhost", **({"Content-Length": str(len(body))} if body else {}), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body
