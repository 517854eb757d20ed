"""Bodies of requests: the sum of what is held is bounded, and slow ones lose their place."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from blocking_server import WAIT, format_request, run_blocking_server

from heedful.serving import resource_limits
from heedful.serving.http_errors import HTTPError
from heedful.serving.resource_limits import UNCOUNTED_BYTES, BodyBudget, RequestBody


def receiving(*sizes: int, last: bool = False) -> Callable[[], Any]:
    """Messages of ASGI with parts of a body, of which more come unless the last is there."""
    parts = list(sizes)

    async def receive() -> dict[str, Any]:
        if not parts:
            await asyncio.Event().wait()
        size = parts.pop(0)
        return {"type": "http.request", "body": b"a" * size, "more_body": bool(parts) or not last}

    return receive


def test_small_bodies_do_not_count() -> None:
    async def arrive() -> None:
        budget = BodyBudget(UNCOUNTED_BYTES)
        for _ in range(5):
            await budget.start_body().receive(receiving(UNCOUNTED_BYTES))
        assert budget.used_bytes == 0
        body = budget.start_body()
        await body.receive(receive := receiving(1, UNCOUNTED_BYTES - 1))
        await body.receive(receive)
        assert budget.used_bytes == 0

    asyncio.run(asyncio.wait_for(arrive(), WAIT))


def test_the_slowest_body_loses_its_place() -> None:
    now = 0.0

    async def arrive() -> None:
        nonlocal now
        budget = BodyBudget(4 * UNCOUNTED_BYTES, clock=lambda: now)
        slow, fast = budget.start_body(), budget.start_body()
        await slow.receive(slowly := receiving(UNCOUNTED_BYTES + 1))
        await fast.receive(receiving(2 * UNCOUNTED_BYTES))
        waiting = asyncio.ensure_future(slow.receive(slowly))
        await asyncio.sleep(0)
        now = 10.0
        newest = budget.start_body()
        await newest.receive(receiving(UNCOUNTED_BYTES + 2))
        with pytest.raises(HTTPError) as lost:
            await waiting
        assert (lost.value.status, lost.value.retry_after) == (503, 5)
        assert budget.used_bytes == 3 * UNCOUNTED_BYTES + 2
        for each in (fast, newest, slow):
            each.release()
        assert budget.used_bytes == 0

    asyncio.run(asyncio.wait_for(arrive(), WAIT))


def test_what_has_arrived_keeps_its_place() -> None:
    now = 0.0

    async def arrive() -> None:
        nonlocal now
        budget = BodyBudget(2 * UNCOUNTED_BYTES, clock=lambda: now)
        whole = budget.start_body()
        await whole.receive(receiving(2 * UNCOUNTED_BYTES, last=True))
        now = 10.0
        newest = budget.start_body()
        with pytest.raises(HTTPError) as refused:
            await newest.receive(receiving(UNCOUNTED_BYTES + 1))
        assert refused.value.status == 503
        newest.release()
        whole.release()
        await budget.start_body().receive(receiving(UNCOUNTED_BYTES + 1))

    asyncio.run(asyncio.wait_for(arrive(), WAIT))


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def _readable(connections: list[socket.socket]) -> list[socket.socket]:
    return select.select(connections, [], [], 0)[0]


def test_unfinished_bodies_hold_no_more_than_the_server_grants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty clients send most of a large body each, and no end: others are answered, and no memory is lost."""
    monkeypatch.setattr(resource_limits, "_MIN_ARRIVAL_SECONDS", 0.0)
    granted, held_most, lock = 1_000_000, 0, threading.Lock()
    hold = BodyBudget.add_bytes

    def counted(budget: BodyBudget, body: RequestBody, size: int) -> None:
        nonlocal held_most
        hold(budget, body, size)
        with lock:
            held_most = max(held_most, budget.used_bytes)

    monkeypatch.setattr(BodyBudget, "add_bytes", counted)
    with (
        run_blocking_server(monkeypatch, limits={"bodies": granted, "file": 900_000, "arrival": 60}) as held,
        ExitStack() as stack,
    ):
        held.predictor.go.set()
        content = format_request("/file", method="POST", Content_Length="600000") + b" " * 300_000
        connections = [stack.enter_context(held.connect()) for _ in range(40)]
        for each in connections:
            each.sendall(content)
            assert held.live.ask("/held", {"text": "b"}).json == {"text": "b"}
        until(lambda: len(_readable(connections)) >= 37)
        told = [each.recv(65_536) for each in _readable(connections)]
        assert all(each.startswith(b"HTTP/1.1 503 ") and b"retry-after: 5" in each for each in told)
        assert 300_000 <= held_most <= granted
        assert held.live.ask("/file", json.dumps({"text": "a" * 500_000}).encode()).json == {"size": 500_000}


def test_a_body_that_could_never_be_held_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch, limits={"bodies": 100_000}) as held:
        answer = held.live.ask("/file", json.dumps({"text": "a" * 100_000}).encode())
        assert answer.status == 413
        assert b"100,000 bytes" in answer.body
