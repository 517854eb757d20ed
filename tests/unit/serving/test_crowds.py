"""Connections from one address: how many it may have, and that others have theirs."""

from __future__ import annotations

import socket
import sys
import time
from contextlib import ExitStack

import pytest
from blocking_server import WAIT, BlockingServer, format_request, read_until_closed, run_blocking_server

from heedful.serving import http_protocol
from heedful.serving.clients import ConnectionCounter
from heedful.serving.settings import ServerSettings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere this machine has one loopback address")


def connected(held: BlockingServer, address: str = "127.0.0.2") -> socket.socket:
    return socket.create_connection(("127.0.0.1", held.live.port), timeout=WAIT, source_address=(address, 0))


def answered(connection: socket.socket) -> bool:
    connection.sendall(format_request("/livez"))
    found = b""
    while part := connection.recv(65_536):
        found += part
        if found.endswith(b'{"status":"ok"}'):
            return True
    return False


def test_one_address_has_so_many_and_others_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch, limits={"connections_per_address": 3}) as held, ExitStack() as stack:
        first = [stack.enter_context(connected(held)) for _ in range(3)]
        assert all(map(answered, first))
        refused = read_until_closed(stack.enter_context(connected(held)))
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 5\r\n" in refused
        assert b'heedful_refused_connections_total{status="429"} 1.0' in held.live.ask("/metrics").body
        assert answered(stack.enter_context(connected(held, "127.0.0.3")))
        assert all(map(answered, first)), "who is here stays"
        first[0].close()
        assert _is_taken(held), "one that ends makes room"


def _is_taken(held: BlockingServer) -> bool:
    """Whether one more connection is answered, soon."""
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        with connected(held) as connection:
            connection.sendall(format_request(Connection="close"))
            if b" 200 OK" in _heard(connection):
                return True
    return False


def _heard(connection: socket.socket) -> bytes:
    try:
        return read_until_closed(connection)
    except ConnectionError:
        return b""


def test_who_is_refused_and_stays_takes_no_place_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "LINGER_SECONDS", WAIT)
    limits = {"connections": 6, "connections_per_address": 2}
    with run_blocking_server(monkeypatch, limits=limits) as held, ExitStack() as stack:
        many = [stack.enter_context(connected(held)) for _ in range(30)]
        assert [answered(each) for each in many[:2]] == [True, True]
        assert [each.recv(12) for each in many[2:4]] == [b"HTTP/1.1 429"] * 2
        assert {_heard(each) for each in many[4:]} == {b""}, "beyond twice as many nobody is told why"
        assert answered(stack.enter_context(connected(held, "127.0.0.3")))


def test_proxies_may_have_as_many_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    access = {"proxies": ["127.0.0.2"]}
    with (
        run_blocking_server(monkeypatch, limits={"connections_per_address": 1}, access=access) as held,
        ExitStack() as stack,
    ):
        assert all(answered(stack.enter_context(connected(held))) for _ in range(5))


def test_who_has_left_is_forgotten() -> None:
    crowds = ConnectionCounter(ServerSettings())
    for number in range(1_000):
        assert crowds.add_connection(f"2001:db8::{number:x}") == number % 10 + 1
        if number % 10 == 9:
            for _ in range(10):
                crowds.remove_connection("2001:db8::1")
    assert len(crowds) == 0
