"""A house with a model that answers when it is told to, and routes of its own to ask it."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from serving import Live, serving
from starlette.responses import Response, StreamingResponse

from heedful.serving import app, server_routes
from heedful.serving.deadline import run_interruptible
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.routes import RequestContext, Route, StrictMessage
from heedful.serving.settings import ServerSettings
from heedful.serving.sse import EventFormat, stream_response

WAIT = 20.0
"""Seconds after which a test gives up."""
WORDING = EventFormat[str](
    event=lambda said: f"data: {said}\n\n", error=lambda refusal: f"error: {refusal.code}\n\n", end="end\n\n"
)


class Text(StrictMessage):
    text: str = ""


@dataclass
class Face:
    """Answers `text` when `go` is set; `begun` counts those that wait for that."""

    go: threading.Event = field(default_factory=threading.Event)
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    fails: BaseException | None = None

    def answer(self, text: str) -> str:
        self.begun.release()
        assert self.go.wait(WAIT), "nobody let it go"
        if self.fails is not None:
            raise self.fails
        return text

    def await_begun(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.begun.acquire(timeout=WAIT), "it was not asked"


@dataclass(frozen=True)
class Held:
    """What is served, and the face behind it."""

    live: Live
    face: Face

    @property
    def house(self) -> ModelRegistry:
        return self.live.house

    def later(self, *given: Any, **named: Any) -> Later:
        """A request in a thread of its own."""
        return Later(lambda: self.live.ask(*given, **named))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.live.port), timeout=WAIT)


class Later:
    """What a thread finds."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._found: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._found.append(work()), daemon=True)
        self._thread.start()

    def get(self) -> Any:
        self._thread.join(WAIT)
        assert self._found, "no answer came"
        return self._found[0]


def house_of(face: Face, **settings: Any) -> ModelRegistry:
    given = ServerSettings.model_validate({"port": 0, "log": "none", **settings})
    house = ModelRegistry(given, {}, {})
    house.models["held"] = LoadedModel("held", face, given)
    house.state = "ready"
    return house


def routes(house: ModelRegistry) -> Iterator[Route]:
    """`/held` and `/waiting` answer when they may, `/stream` does so in two parts, `/endless` in
    many, after which the face has begun, `/watched` tells events, `/file` takes files, and `/parsing` never ends."""

    async def held(asked: RequestContext, message: Text) -> Mapping[str, Any]:
        model = house.get_model(Face, None, action="waits")
        return {"text": await model.run(asked.deadline, lambda: model.predictor.answer(message.text))}

    async def stream(asked: RequestContext, message: Text) -> StreamingResponse:
        model = house.get_model(Face, None, action="waits")

        async def parts() -> AsyncIterator[bytes]:
            yield b"begun\n"
            yield (await model.run(asked.deadline, lambda: model.predictor.answer(message.text))).encode()

        return StreamingResponse(parts(), media_type="text/plain")

    async def size(_asked: RequestContext, message: Text) -> Mapping[str, Any]:
        return {"size": len(message.text)}

    async def large(_asked: RequestContext, message: Text) -> Mapping[str, Any]:
        return {"text": message.text * 1_000_000}

    async def waiting(asked: RequestContext) -> Mapping[str, Any]:
        return await held(asked, Text(text="waited"))

    async def endless(asked: RequestContext) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            face = house.get_model(Face, None, action="waits").predictor
            try:
                for _ in range(1_000):
                    yield b"a" * 100_000
            finally:
                face.begun.release()

        return StreamingResponse(parts(), media_type="text/plain")

    async def parsing(asked: RequestContext) -> Mapping[str, Any]:
        face = house.get_model(Face, None, action="waits").predictor

        def parse() -> None:
            face.begun.release()
            while True:
                sum(range(100))

        await house.file_queue.run(asked.deadline, partial(run_interruptible, asked.deadline, parse))
        return {}

    async def watched(asked: RequestContext) -> Response:
        model = house.get_model(Face, None, action="waits")

        def work(say: Callable[[str], None]) -> None:
            say("begun")
            say(model.predictor.answer("a"))

        return await stream_response(asked, model, work, event_format=WORDING)

    yield Route(path="/held", handler=held, summary="", request_type=Text)
    yield Route(path="/watched", method="GET", handler=watched, summary="")
    yield Route(path="/endless", method="GET", handler=endless, summary="")
    yield Route(path="/parsing", method="GET", handler=parsing, summary="")
    yield Route(path="/waiting", method="GET", handler=waiting, summary="")
    yield Route(path="/stream", handler=stream, summary="", request_type=Text)
    yield Route(path="/size", handler=size, summary="", request_type=Text)
    yield Route(path="/file", handler=size, summary="", request_type=Text, accepts_files=True)
    yield Route(path="/large", handler=large, summary="", request_type=Text)
    yield from (server_routes.answer_health, server_routes.answer_metrics)


@contextmanager
def holding(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Iterator[Held]:
    """A house with one such model, served while the block runs."""
    monkeypatch.setattr(app, "collect_routes", lambda house: tuple(routes(house)))
    face = Face()
    house = house_of(face, **settings)
    try:
        with serving(house) as live:
            yield Held(live, face)
    finally:
        face.go.set()
        house.models["held"].close()


def until_closed(connection: socket.socket) -> bytes:
    """All that comes before the other side ends."""
    found = b""
    while part := connection.recv(65_536):
        found += part
    return found


def request(path: str = "/health", *, method: str = "GET", body: bytes = b"", **headers: str) -> bytes:
    """One request as it is sent."""
    named = {"Host": "localhost", **({"Content-Length": str(len(body))} if body else {}), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body
