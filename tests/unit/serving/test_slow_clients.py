"""Connections: what they may send, how slowly, and how slowly they may take what is answered."""

from __future__ import annotations

import re
import select
import socket
import time
from contextlib import ExitStack

import pytest
from blocking_server import WAIT, BlockingServer, format_request, read_until_closed, run_blocking_server

from heedful.serving import http_protocol

FAST = {"arrival": 0.3, "idle": 0.3}
"""Limits so short that a test need not wait for them."""
POST = format_request("/held", method="POST", body=b'{"text": "a"}')


def status_of(answer: bytes) -> int:
    return int(answer.split()[1])


def told(held: BlockingServer, content: bytes) -> bytes:
    """All that comes back before the server ends the connection."""
    with held.connect() as connection:
        connection.sendall(content)
        return read_until_closed(connection)


def test_two_hundred_that_send_a_byte_at_a_time_harm_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "LINGER_SECONDS", WAIT)
    with run_blocking_server(monkeypatch, limits={"arrival": 1.0}) as held, ExitStack() as stack:
        held.predictor.go.set()
        content = format_request("/held", method="POST", body=b'{"text": "a"}' + b" " * 2_000, X_Padding="a" * 2_000)
        slow = [(stack.enter_context(held.connect()), 20 if number % 2 else 2_200) for number in range(200)]
        for each, begun in slow:
            each.sendall(content[:begun])  # half of them are slow with headers, half with the body
        answered, lost, more = 0, 0, 0
        until = time.monotonic() + WAIT
        while slow and time.monotonic() < until:
            assert held.live.ask("/held", {"text": "b"}).json == {"text": "b"}
            answered += 1
            readable, _, _ = select.select([each for each, _ in slow], [], [], 0)
            for each in readable:
                assert status_of(read_until_closed(each)) == 408
                lost += 1
            slow = [(each, begun) for each, begun in slow if each not in readable]
            for each, begun in slow:
                each.sendall(content[begun + more : begun + more + 1])
            more += more < 1_000
        assert lost == 200
        assert answered > 1
        assert held.live.ask("/held", {"text": "b"}).status == 200


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"GET /hea", 408),
        (b"\r\n\r\n", 408),
        (format_request()[:-2], 408),
        (POST[:-1], 408),
        (format_request("/held", method="POST", Transfer_Encoding="chunked") + b"5\r\naaaaa\r\n", 408),
        (format_request() + b"GET /hea", 200),
        (format_request() + POST[:-1], 200),
    ],
    ids=["line", "nothing", "headers", "body", "chunks", "second line", "second body"],
)
def test_what_does_not_arrive_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, content: bytes, status: int) -> None:
    with run_blocking_server(monkeypatch, limits=FAST) as held:
        found = told(held, content)
        assert status_of(found) == status
        assert b"connection: close" in found or status == 200
        assert held.live.ask("/health").status == 200


def test_connections_without_a_request_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch, limits=FAST) as held:
        assert told(held, b"") == b""
        assert status_of(told(held, format_request())) == 200  # ends where nothing follows


@pytest.mark.parametrize("behind", [b"", b"GET /hea", POST[:-1]], ids=["alone", "line", "body"])
def test_answers_may_take_longer_than_requests(monkeypatch: pytest.MonkeyPatch, behind: bytes) -> None:
    with run_blocking_server(monkeypatch, limits=FAST) as held, held.connect() as connection:
        connection.sendall(POST + behind)
        held.predictor.wait_for_call()
        time.sleep(1.0)  # three times what a request has, while it is we who are slow
        held.predictor.go.set()
        found = read_until_closed(connection)
        assert status_of(found) == 200
        assert b'{"text":"a"}' in found


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (format_request(X="a" * 40_000), 431),
        (format_request(X="a" * 400_000), 431),
        (format_request(X="a" * 400_000)[:-4], 431),
        (format_request(**{f"X{number}": "a" for number in range(100)}), 431),
        (format_request(**{f"X{number}": "a" for number in range(3_000)}), 431),
        (format_request("/" + "a" * 70_000), 414),
        (format_request("/health?q=" + "a" * 70_000)[:-20], 414),
        (b"G" * 400_000, 400),
        (b"\r\n" * 200_000, 431),
        (
            format_request("/held", method="POST", Transfer_Encoding="chunked")
            + b"1\r\na\r\n0\r\nX: "
            + b"a" * 400_000,
            431,
        ),
        (b"hello\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", 400),
        (format_request(Content_Length="5", Transfer_Encoding="chunked"), 400),
        (format_request("/\xff"), 400),
        (b"GET /health\r\n\r\n", 400),
        (b"GET /health\n\n", 400),
        (b"GET /health HTTP/0.9\r\n\r\n", 400),
        (b"GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n", 400),
        (b"POST /held HTTP/0.9\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}", 400),
    ],
    ids=lambda each: "" if isinstance(each, bytes) else str(each),
)
def test_what_is_too_much_or_no_request(monkeypatch: pytest.MonkeyPatch, content: bytes, status: int) -> None:
    with run_blocking_server(monkeypatch) as held:
        found = told(held, content)
        assert status_of(found) == status
        assert b'{"error": "' in found
        assert b"connection: close\r\n" in found
        assert re.search(rb"x-request-id: [0-9a-f]{32}\r\n", found)
        assert held.live.ask("/health").status == 200


def test_refusals_of_the_protocol_are_known_by_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the request, where its header has come, and the same in the log."""
    seen: list[str] = []
    monkeypatch.setattr(
        "heedful.serving.http_protocol.log_request", lambda visit: seen.append(f"{visit.id} {visit.status}")
    )
    with run_blocking_server(monkeypatch, limits={**FAST, "connections_per_address": 4}) as held:
        assert b"x-request-id: my-own.1\r\n" in told(held, format_request(X_Request_Id="my-own.1", X="a" * 40_000))
        assert b"x-request-id: my-own.2\r\n" in told(
            held, POST[:-1].replace(b"\r\n", b"\r\nX-Request-Id: my-own.2\r\n", 1)
        )
        found = told(held, format_request(X_Request_Id="not;one", X="a" * 40_000))
        assert b"not;one" not in found and b"x-request-id: " in found
        with ExitStack() as stack:
            several = [stack.enter_context(held.connect()) for _ in range(6)]
            assert b"x-request-id: " in several[-1].recv(65_536)
    assert seen[0] == "my-own.1 431"


def test_headers_within_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch) as held:
        headers = {f"X-{number}": "a" for number in range(90)}
        assert held.live.ask("/health", headers=headers).status == 200
        assert held.live.ask("/health", headers={"X": "a" * 30_000}).status == 200
        assert held.live.ask("/health?q=" + "a" * 60_000).status == 200


def test_an_answer_to_what_is_too_large_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch) as held:
        assert held.live.ask("/held", b"a" * 30_000_000).status == 413
        chunk = b"20000\r\n" + b"a" * 0x20000 + b"\r\n"
        with held.connect() as connection:
            connection.sendall(format_request("/held", method="POST", Transfer_Encoding="chunked") + chunk * 40)
            assert status_of(connection.recv(100)) == 413


def test_connections_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch, limits={"connections": 10}) as held, ExitStack() as stack:
        first = [stack.enter_context(held.connect()) for _ in range(10)]
        for each in first:
            each.sendall(format_request())
            assert status_of(each.recv(100)) == 200
        found = told(held, format_request())
        assert status_of(found) == 503
        assert b"retry-after: 5\r\n" in found
        more = [stack.enter_context(held.connect()) for _ in range(30)]
        assert any(_is_reset(each) for each in more), "beyond twice as many nobody is told why"
        for each in (*first, *more):
            each.close()
        assert _comes_back(held)


def test_who_comes_and_goes_leaves_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with run_blocking_server(monkeypatch, limits={"connections": 2}) as held:
        for _ in range(200):
            held.connect().close()
            with held.connect() as connection:
                connection.sendall(b"GET /hea")
        assert _comes_back(held)
    assert caplog.records == []


def _is_reset(connection: socket.socket) -> bool:
    try:
        return connection.recv(100) == b""
    except ConnectionError:
        return True


def _comes_back(held: BlockingServer) -> bool:
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        try:
            if held.live.ask("/health").status == 200:
                return True
        except (ConnectionError, OSError):
            continue
    return False


@pytest.mark.parametrize("path", ["/large", "/endless"])
def test_who_does_not_take_an_answer_loses_it(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(http_protocol, "LINGER_SECONDS", 0.3)
    asked = format_request(path, method="POST", body=b'{"text": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}')
    with run_blocking_server(monkeypatch, limits={"idle": 0.3}) as held, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.settimeout(WAIT)
        connection.connect(("127.0.0.1", held.live.port))
        connection.sendall(asked if path == "/large" else format_request(path))
        connection.recv(1)  # it is being answered
        assert _left(held), "nothing is kept for it"
        if path == "/endless":
            held.predictor.wait_for_call()


def test_who_is_refused_and_stays_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "LINGER_SECONDS", 0.3)
    with run_blocking_server(monkeypatch) as held, held.connect() as connection:
        connection.sendall(b"hello\r\n\r\n")
        assert status_of(connection.recv(100)) == 400
        assert _left(held)


def _left(held: BlockingServer) -> bool:
    """Whether there are no connections, soon."""
    until = time.monotonic() + WAIT
    while _connections(held) and time.monotonic() < until:
        assert held.live.ask("/health", headers={"Connection": "close"}).status == 200
    return not _connections(held)


def _connections(held: BlockingServer) -> int:
    return len(held.live.server.server_state.connections)


def test_who_takes_it_slowly_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch, limits={"idle": 2.0}) as held, held.connect() as connection:
        connection.sendall(format_request("/large", method="POST", body=b'{"text": "abcde"}', Connection="close"))
        assert len(read_until_closed(connection)) > 5_000_000


def test_many_requests_at_a_time_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch) as held:
        with held.connect() as connection:
            connection.sendall(format_request() * 9 + format_request(Connection="close"))
            assert read_until_closed(connection).count(b" 200 OK\r\n") == 10
        assert told(held, format_request() * 1_000).count(b"HTTP/1.1") < 20


def test_offers_of_other_protocols_are_left_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch) as held:
        held.predictor.go.set()
        for other in ("h2c", "websocket"):
            body = b'{"text": "a"}'
            content = format_request(
                "/held", method="POST", body=body, Connection="Upgrade, HTTP2-Settings", Upgrade=other
            )
            found = told(held, content.replace(b": Upgrade,", b": close, Upgrade,"))
            assert status_of(found) == 200
            assert b'{"text":"a"}' in found
            with held.connect() as connection:
                head, behind = content.split(b"\r\n\r\n")
                connection.sendall(head + b"\r\n\r\n")
                assert held.live.ask("/health").status == 200
                connection.sendall(behind)
                assert status_of(connection.recv(100)) == 200
                connection.sendall(format_request("/livez", Connection="close"))
                assert b'{"status":"ok"}' in read_until_closed(connection)


def test_a_client_that_waits_for_leave_to_send_gets_it_or_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch) as held:
        held.predictor.go.set()
        with held.connect() as connection:
            head, body = POST.split(b"\r\n\r\n")
            connection.sendall(head + b"\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
            assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            connection.sendall(body)
            assert status_of(read_until_closed(connection)) == 200
        with held.connect() as connection:
            connection.sendall(format_request("/held", method="POST", Content_Length="9999999", Expect="100-continue"))
            assert status_of(connection.recv(100)) == 413
