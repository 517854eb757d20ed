"""A house with a model that answers when it is told to, and routes of its own to ask it."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from serving import Live, serving
from starlette.responses import Response, StreamingResponse

from heedful.serving import about, app
from heedful.serving.house import House, Model
from heedful.serving.routes import Asked, Message, Route
from heedful.serving.settings import Settings
from heedful.serving.streams import Wording, streamed

WAIT = 20.0
"""Seconds after which a test gives up."""
WORDING = Wording[str](
    event=lambda said: f"data: {said}\n\n", refusal=lambda refusal: f"error: {refusal.code}\n\n", end="end\n\n"
)


class Text(Message):
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
    def house(self) -> House:
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


def house_of(face: Face, **settings: Any) -> House:
    given = Settings.model_validate({"port": 0, "log": "none", **settings})
    house = House(given, {}, {})
    house.models["held"] = Model("held", face, given)
    house.state = "ready"
    return house


def routes(house: House) -> Iterator[Route]:
    """`/held` and `/waiting` answer when they may, `/stream` does so in two parts, `/endless` in
    many, after which the face has begun, `/watched` tells events, and `/file` takes files."""

    async def held(asked: Asked, message: Text) -> Mapping[str, Any]:
        model = house.model(Face, None, use="waits")
        return {"text": await model.ask(asked.term, lambda: model.face.answer(message.text))}

    async def stream(asked: Asked, message: Text) -> StreamingResponse:
        model = house.model(Face, None, use="waits")

        async def parts() -> AsyncIterator[bytes]:
            yield b"begun\n"
            yield (await model.ask(asked.term, lambda: model.face.answer(message.text))).encode()

        return StreamingResponse(parts(), media_type="text/plain")

    async def size(_asked: Asked, message: Text) -> Mapping[str, Any]:
        return {"size": len(message.text)}

    async def large(_asked: Asked, message: Text) -> Mapping[str, Any]:
        return {"text": message.text * 1_000_000}

    async def waiting(asked: Asked) -> Mapping[str, Any]:
        return await held(asked, Text(text="waited"))

    async def endless(asked: Asked) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            face = house.model(Face, None, use="waits").face
            try:
                for _ in range(1_000):
                    yield b"a" * 100_000
            finally:
                face.begun.release()

        return StreamingResponse(parts(), media_type="text/plain")

    async def watched(asked: Asked) -> Response:
        model = house.model(Face, None, use="waits")

        def work(say: Callable[[str], None]) -> None:
            say("begun")
            say(model.face.answer("a"))

        return await streamed(asked, model, work, wording=WORDING)

    yield Route(path="/held", answer=held, about="", takes=Text)
    yield Route(path="/watched", method="GET", answer=watched, about="")
    yield Route(path="/endless", method="GET", answer=endless, about="")
    yield Route(path="/waiting", method="GET", answer=waiting, about="")
    yield Route(path="/stream", answer=stream, about="", takes=Text)
    yield Route(path="/size", answer=size, about="", takes=Text)
    yield Route(path="/file", answer=size, about="", takes=Text, files=True)
    yield Route(path="/large", answer=large, about="", takes=Text)
    yield from about.routes(house)


@contextmanager
def holding(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Iterator[Held]:
    """A house with one such model, served while the block runs."""
    monkeypatch.setattr(app, "routes_of", lambda house: tuple(routes(house)))
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
