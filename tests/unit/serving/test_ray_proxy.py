"""What the middleware of Ray's HTTP proxies does when replicas die, with applications in place of the proxy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from heedful.serving import ray_proxy
from heedful.serving.ray_proxy import ReplicaFailover, build_middlewares

App = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass
class Client:
    """A client with a request; it keeps what is sent to it.

    Attributes:
        parts: of its body.
        path: of the request.
        leaves: whether it closes the connection behind the body.
    """

    parts: Sequence[bytes] = (b"",)
    path: str = "/translate"
    leaves: bool = False
    sent: list[Any] = field(default_factory=list)

    async def ask(self, app: App) -> None:
        left = list(self.parts)

        async def receive() -> Any:
            if left:
                part = left.pop(0)
                return {"type": "http.request", "body": part, "more_body": bool(left)}
            if not self.leaves:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            self.sent.append(message)

        scope = {"type": "http", "path": self.path, "method": "POST", "headers": [(b"host", b"x")]}
        await asyncio.wait_for(ReplicaFailover(app)(scope, receive, send), 10)

    @property
    def status(self) -> int:
        (start,) = [message for message in self.sent if message["type"] == "http.response.start"]
        return int(start["status"])

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(bytes(name).lower(), bytes(value)) for name, value in self.sent[0]["headers"]]

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent if message["type"] == "http.response.body")

    @property
    def is_complete(self) -> bool:
        return self.sent[-1]["type"] == "http.response.body" and not self.sent[-1].get("more_body", False)


@pytest.fixture(autouse=True)
def _wait_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_proxy, "_PAUSES", (0.0, 0.0))


async def read_body(receive: Any) -> bytes:
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return body
        body += message["body"]
        if not message["more_body"]:
            return body


async def answer(send: Any, content: bytes, *, status: int = 200, kind: bytes = b"application/json") -> None:
    headers = [[b"content-type", kind], [b"x-request-id", b"a"], [b"X-Request-ID", b"a"]]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def dying(times: int, *, reads: bool = True, raises: bool = False) -> tuple[App, list[bytes]]:
    """An application that ends so many times before its answer, which is its body; and the bodies that it read."""
    bodies: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["headers"] == [(b"host", b"x")]
        scope["headers"].append((b"changed", b"here"))
        bodies.append(await read_body(receive) if reads else b"")
        if len(bodies) <= times:
            if raises:
                raise RuntimeError("the actor died")
            return
        await answer(send, bodies[-1])

    return app, bodies


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_request_is_sent_to_another_replica(times: int, raises: bool) -> None:
    app, bodies = dying(times, raises=raises)
    client = Client([b'{"q": ', b'"a"}'])
    asyncio.run(client.ask(app))
    assert bodies == [b'{"q": "a"}'] * (times + 1)
    assert (client.status, client.body, client.is_complete) == (200, b'{"q": "a"}', True)
    assert [name for name, _ in client.headers].count(b"x-request-id") == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/translate", lambda content: content["error"]),
        ("/v1/completions", lambda content: content["error"]["message"]),
    ],
)
def test_three_dead_replicas_are_an_error_that_says_when_to_ask_again(path: str, message: Callable[..., str]) -> None:
    app, bodies = dying(99)
    client = Client([b"{}"], path)
    asyncio.run(client.ask(app))
    assert len(bodies) == 3
    assert (client.status, client.is_complete) == (503, True)
    assert dict(client.headers)[b"retry-after"] == b"2"
    assert "has ended; ask again" in message(json.loads(client.body))


def test_large_requests_and_clients_that_left_are_not_repeated() -> None:
    large, left = Client([b"a" * 2**19] * 3), Client([b"{}"], leaves=True)
    app, bodies = dying(1)
    asyncio.run(large.ask(app))
    assert len(bodies) == 1
    assert large.status == 503
    bodies.clear()

    async def wait_for_end(scope: Any, receive: Any, send: Any) -> None:
        bodies.append(await read_body(receive))
        await receive()

    asyncio.run(left.ask(wait_for_end))
    assert len(bodies) == 1
    assert left.sent == []


def test_a_reader_that_stops_in_the_middle_is_followed_by_one_that_gets_everything() -> None:
    bodies: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        bodies.append((await receive())["body"] if not bodies else await read_body(receive))
        if len(bodies) == 2:
            await answer(send, b"{}")

    client = Client([b"a", b"b", b"c"])
    asyncio.run(client.ask(app))
    assert bodies == [b"a", b"abc"]
    assert client.status == 200


@pytest.mark.parametrize(
    ("event", "ending"), [(b"event: growing\ndata: {}\n\n", b"event: error\ndata: "), (b"data: {}\n\n", b"data: ")]
)
def test_a_stream_that_breaks_off_ends_with_an_error(event: bytes, ending: bytes) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": event, "more_body": True})

    client = Client(path="/v1/heedful/translate")
    asyncio.run(client.ask(app))
    assert client.is_complete
    assert client.body.startswith(event + ending)
    error = json.loads(client.body.removeprefix(event + ending))
    assert error["error"]["code"] == "unavailable"
    assert b"[DONE]" not in client.body


def test_an_answer_that_breaks_off_never_looks_complete() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b'{"translatedText": ', "more_body": True})

    client = Client()
    asyncio.run(client.ask(app))
    assert not client.is_complete
    assert client.body == b'{"translatedText": '


@pytest.mark.parametrize(
    ("status", "changed", "retry_after"), [(404, 503, b"5"), (408, 504, None), (429, 503, b"1"), (503, 503, b"1")]
)
def test_messages_of_ray_become_errors_of_heedful(status: int, changed: int, retry_after: bytes | None) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, b"Path '/translate' not found", status=status, kind=b"text/plain; charset=utf-8")

    client = Client()
    asyncio.run(client.ask(app))
    assert (client.status, client.is_complete) == (changed, True)
    assert dict(client.headers).get(b"retry-after") == retry_after
    assert set(json.loads(client.body)) == {"error"}


@pytest.mark.parametrize(
    ("status", "kind"), [(404, b"application/json"), (200, b"text/plain"), (503, b"application/json")]
)
def test_answers_of_replicas_stay_as_they_are(status: int, kind: bytes) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, b'{"error": "mine"}', status=status, kind=kind)

    client = Client()
    asyncio.run(client.ask(app))
    assert (client.status, client.body) == (status, b'{"error": "mine"}')


def test_routes_of_ray_stay_as_they_are() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, b"starting", status=503, kind=b"text/plain")

    client = Client(path="/-/healthz")
    asyncio.run(client.ask(app))
    assert client.body == b"starting"


def test_ray_finds_the_middleware() -> None:
    (middleware,) = build_middlewares()
    assert middleware.cls is ReplicaFailover
