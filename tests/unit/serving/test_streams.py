"""Streams of events: what is told last, whoever ends them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from blocking_server import BlockingServer, format_request, read_until_closed, run_blocking_server

from heedful.errors import DataError


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingServer]:
    with run_blocking_server(monkeypatch, limits={"body": 1_000, "drain": 0.2}) as found:
        yield found


def lines(found: bytes) -> list[str]:
    """What stands in a stream that ended as a whole, of which nothing is missing."""
    head, _, body = found.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    *chunks, end, rest, nothing = body.decode().split("\r\n")
    assert (end, rest, nothing) == ("0", "", ""), "it was cut"
    return "".join(chunks[1::2]).split("\n\n")[:-1]


def until_begun(held: BlockingServer, connection: socket.socket) -> bytes:
    """What has come when the first event has."""
    held.predictor.wait_for_call()
    found = b""
    while b"begun\n\n" not in found:
        found += connection.recv(65_536)
    return found


def test_what_is_said_and_an_end(held: BlockingServer) -> None:
    held.predictor.go.set()
    answer = held.live.ask("/watched")
    assert answer.body == b"data: begun\n\ndata: a\n\nend\n\n"
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("failure", "code"), [(DataError("no"), "invalid_request"), (ValueError("a mistake"), "internal_error")]
)
def test_what_fails_is_told_last(held: BlockingServer, failure: Exception, code: str) -> None:
    held.predictor.fails = failure
    held.predictor.go.set()
    with closing(held.connect()) as connection:
        connection.sendall(format_request("/watched", Connection="close"))
        assert lines(read_until_closed(connection)) == ["data: begun", f"error: {code}"]


def test_the_end_of_the_server_is_told(held: BlockingServer) -> None:
    with closing(held.connect()) as connection:
        connection.sendall(format_request("/watched"))
        begun = until_begun(held, connection)
        held.live.server.request_stop()
        assert lines(begun + read_until_closed(connection)) == ["data: begun", "error: unavailable"]


def test_what_is_wrong_with_the_rest_of_a_request_is_told(held: BlockingServer) -> None:
    with closing(held.connect()) as connection:
        connection.sendall(format_request("/watched", Transfer_Encoding="chunked", Connection="close") + b"1\r\na\r\n")
        begun = until_begun(held, connection)
        connection.sendall(b"400\r\n" + b"a" * 0x400 + b"\r\n")
        assert lines(begun + read_until_closed(connection)) == ["data: begun", "error: too_large"]


def test_an_answer_that_is_no_stream_of_events_is_cut(held: BlockingServer) -> None:
    with closing(held.connect()) as connection:
        connection.sendall(format_request("/stream", method="POST", body=b'{"text": "a"}'))
        held.predictor.wait_for_call()
        held.live.server.request_stop()
        assert read_until_closed(connection).endswith(b"begun\n\r\n")
