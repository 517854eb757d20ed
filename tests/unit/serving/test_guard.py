"""What stands before every route: names, pages, sizes, and what every answer says."""

from __future__ import annotations

import gc
import http.client
import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from blocking_server import (
    WAIT,
    BlockingPredictor,
    BlockingServer,
    build_registry,
    format_request,
    read_until_closed,
    run_blocking_server,
)
from live_server import ServerResponse, run_server

from heedful.errors import DataError, MissingExtraError, RunError
from heedful.serving import app
from heedful.serving.http_errors import model_error
from heedful.serving.registry import ModelRegistry
from heedful.serving.routes import Route


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingServer]:
    with run_blocking_server(monkeypatch, limits={"body": 1_000, "file": 5_000}) as found:
        found.predictor.go.set()
        yield found


def sent(held: BlockingServer, *given: Any, **headers: str) -> ServerResponse:
    """The answer to a request whose headers are exactly these."""
    with held.connect() as connection:
        connection.sendall(format_request(*given, Connection="close", **headers))
        head, _, body = read_until_closed(connection).partition(b"\r\n\r\n")
    line, *lines = head.decode().split("\r\n")
    return ServerResponse(int(line.split()[1]), dict(each.lower().split(": ", 1) for each in lines), body)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST.:80", 200),
        ("127.0.0.1:5000", 200),
        ("[::1]:5000", 200),
        ("[0:0:0:0:0:0:0:1]", 200),
        (socket.gethostname(), 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("169.254.169.254", 421),
        ("user@localhost", 400),
        ("localhost:99999999", 400),
        ("local host", 400),
        ("", 400),
    ],
)
def test_hosts(held: BlockingServer, host: str, status: int) -> None:
    answer = sent(held, Host=host)
    assert answer.status == status, answer.body
    assert status == 200 or b"access.hosts" in answer.body or b"Host" in answer.body


def test_a_request_has_one_host(held: BlockingServer) -> None:
    for head in (b"GET /health HTTP/1.1\r\n", b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n"):
        with held.connect() as connection:
            connection.sendall(head + b"Connection: close\r\n\r\n")
            assert read_until_closed(connection).startswith(b"HTTP/1.1 400 ")


def test_hosts_that_settings_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch, access={"hosts": ["translate.example.org"]}) as held:
        assert sent(held, Host="Translate.Example.org:443").status == 200
        assert sent(held, Host="localhost").status == 200
        assert sent(held, Host="example.org").status == 421
        assert sent(held, Host="translate.example.org", Origin="https://translate.example.org").status == 200
    with run_blocking_server(monkeypatch, access={"hosts": ["*"]}) as held:
        assert sent(held, Host="anything.example").status == 200


def test_pages_of_other_sites_may_not_ask(held: BlockingServer) -> None:
    def posted(origin: str | None, host: str = "localhost:5000") -> int:
        named = {} if origin is None else {"Origin": origin}
        with held.connect() as connection:
            body = b'{"text": "a"}'
            connection.sendall(
                format_request("/held", method="POST", body=body, Host=host, Connection="close", **named)
            )
            return int(read_until_closed(connection).split()[1])

    assert posted(None) == 200
    assert posted("http://localhost:5000") == 200
    assert posted("https://LOCALHOST:5000") == 200
    assert posted("http://localhost:5000", host="LocalHost:5000") == 200
    assert sent(held, Origin="https://evil.example").status == 200, "who only reads cannot read it there"
    for origin in ("http://localhost", "http://localhost:5001", "https://evil.example", "null", "", "localhost:5000"):
        assert posted(origin) == 403, origin


def test_pages_that_settings_name_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {
        "Access_Control_Request_Method": "POST",
        "Access_Control_Request_Headers": "authorization, x-stainless-os",
    }
    with run_blocking_server(monkeypatch, access={"origins": ["https://Example.org/"]}) as held:
        held.predictor.go.set()
        answer = held.live.ask("/held", {"text": "a"}, headers={"Origin": "https://example.org"})
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "https://example.org")
        assert answer.headers["vary"] == "Origin"
        assert "X-Request-Id" in answer.headers["access-control-expose-headers"]
        assert "access-control-allow-origin" not in sent(held, Origin="https://evil.example").headers
        asked = held.live.ask("/held", method="OPTIONS", headers={"Origin": "https://example.org"} | _typed(wanted))
        assert (asked.status, asked.body) == (204, b"")
        assert asked.headers["access-control-allow-headers"] == "authorization, x-stainless-os"
        assert "POST" in asked.headers["access-control-allow-methods"]
        refused = held.live.ask("/held", method="OPTIONS", headers={"Origin": "https://evil.example"} | _typed(wanted))
        assert refused.status == 403
    with run_blocking_server(monkeypatch, access={"origins": ["*"]}) as held:
        held.predictor.go.set()
        answer = held.live.ask("/held", {"text": "a"}, headers={"Origin": "null"})
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "*")
    with run_blocking_server(monkeypatch) as held:
        asked = held.live.ask("/held", method="OPTIONS", headers={"Origin": "https://example.org"} | _typed(wanted))
        assert asked.status == 403
        assert "access-control-allow-origin" not in held.live.ask("/health").headers


def _typed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def test_every_answer_tells_browsers_what_it_may_do(held: BlockingServer) -> None:
    for path in ("/health", "/nowhere", "/metrics"):
        said = held.live.ask(path).headers
        assert said["x-content-type-options"] == "nosniff"
        assert said["referrer-policy"] == "no-referrer"
        policy = dict(each.strip().split(" ", 1) for each in said["content-security-policy"].split(";"))
        assert policy["default-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert "unsafe" not in said["content-security-policy"]
        assert "server" not in said


def test_ids(held: BlockingServer) -> None:
    made = [held.live.ask("/health").headers["x-request-id"] for _ in range(2)]
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in made)
    assert made[0] != made[1]
    assert held.live.ask("/health", headers={"X-Request-Id": "job-7.b_2"}).headers["x-request-id"] == "job-7.b_2"
    for odd in ("a b", "a" * 65, "<script>", "ä"):
        assert held.live.ask("/health", headers={"X-Request-Id": odd}).headers["x-request-id"] != odd


def test_bodies_have_a_size(held: BlockingServer) -> None:
    def body(size: int) -> bytes:
        return json.dumps({"text": "a" * (size - len('{"text": ""}'))}).encode()

    assert held.live.ask("/size", body(1_000)).status == 200
    assert held.live.ask("/size", body(1_001)).status == 413
    assert held.live.ask("/file", body(5_000)).status == 200
    answer = held.live.ask("/file", body(5_001))
    assert (answer.status, "5,000 bytes" in answer.json["error"]["message"]) == (413, True)
    assert held.live.ask("/nowhere", body(5_001)).status == 413


@pytest.mark.parametrize("path", ["/size", "/health", "/nowhere"])
def test_bodies_without_a_length_have_a_size(held: BlockingServer, path: str) -> None:
    part = b"190\r\n" + b"a" * 400 + b"\r\n"
    method = "POST" if path == "/size" else "GET"
    with held.connect() as connection:
        connection.sendall(
            format_request(path, method=method, Transfer_Encoding="chunked", Connection="close") + part * 3
        )
        found = read_until_closed(connection)
    assert int(found.split()[1]) == {"/size": 413, "/health": 200, "/nowhere": 404}[path]


def test_a_body_that_nobody_reads_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch, limits={"body": 1_000}) as held, held.connect() as connection:
        connection.sendall(
            format_request("/waiting", Transfer_Encoding="chunked", Connection="close") + b"5\r\naaaaa\r\n"
        )
        held.predictor.wait_for_call()
        connection.sendall(b"400\r\n" + b"a" * 0x400 + b"\r\n")
        assert int(read_until_closed(connection).split()[1]) == 413


def test_lengths_that_are_none(held: BlockingServer) -> None:
    for length in ("-1", "1e3", "0x10", "99999999999999999999999"):
        assert sent(held, "/health", Content_Length=length).status in (400, 413)
    both = {"Content_Length": "3", "Transfer_Encoding": "chunked"}
    assert sent(held, "/health", **both).status == 400


@pytest.mark.parametrize(
    "failure",
    [
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RecursionError(),
        KeyError("/home/somebody/x"),
        RunError("/home/somebody/runs/x: is damaged"),
        MissingExtraError("install it in /home/somebody"),
    ],
)
def test_a_model_that_fails_answers_the_next(
    held: BlockingServer, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    held.predictor.fails = failure
    answer = held.live.ask("/held", {"text": "a secret"})
    assert answer.status == 500
    assert answer.headers["x-request-id"] in answer.json["error"]["message"]
    assert b"somebody" not in answer.body
    record = next(each for each in caplog.records if each.exc_info)
    assert answer.headers["x-request-id"] in record.getMessage()
    held.predictor.fails = None
    assert held.live.ask("/held", {"text": "a"}).json == {"text": "a"}


def test_many_fail_and_each_is_told(held: BlockingServer) -> None:
    held.predictor.fails = MemoryError()
    waiting = [held.ask_in_thread("/held", {"text": "a"}) for _ in range(8)]
    assert {each.get().status for each in waiting} == {500}
    held.predictor.fails = None
    assert held.live.ask("/held", {"text": "a"}).status == 200


def test_what_a_model_says_of_a_text_hides_folders(held: BlockingServer) -> None:
    held.predictor.fails = DataError("/tmp/upload-1/x.png: is no picture; see https://a.example/b/c and/or <b>d</b>/e")
    answer = held.live.ask("/held", {"text": "a"})
    assert answer.status == 400
    assert answer.json["error"]["message"] == "x.png: is no picture; see https://a.example/b/c and/or <b>d</b>/e"
    assert model_error(DataError(r"C:\Users\me\x.txt:3: is odd")).message == "x.txt:3: is odd"


def test_failures_in_the_middle_of_a_stream_cut_it(held: BlockingServer) -> None:
    held.predictor.go.clear()
    held.predictor.fails = ValueError("a mistake")
    with held.connect() as connection:
        connection.sendall(format_request("/stream", method="POST", body=b'{"text": "a"}'))
        held.predictor.wait_for_call()
        held.predictor.go.set()
        found = read_until_closed(connection)
    assert found.startswith(b"HTTP/1.1 200 ")
    assert found.endswith(b"begun\n\r\n"), "no end of the chunks, so nobody takes it for a whole"
    held.predictor.fails = None
    assert held.live.ask("/held", {"text": "a"}).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"[" * 1_000,
        b'{"text": 1}',
        b'{"text": null}',
        b'{"text": ["a"]}',
        b'{"text": {"a": 1}}',
        b'{"text": "a", "more": 1}',
        b'{"text": "\\ud800"}',
        b'{"\\ud800": "a"}',
        b'{"text": NaN}',
        b'{"text": ' + b"9" * 900 + b"}",
    ],
)
def test_malformed_bodies_are_refused_and_nothing_else(held: BlockingServer, body: bytes) -> None:
    answer = held.live.ask("/held", body)
    assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")
    assert held.live.ask("/held", {"text": "\u00e4"}).json == {"text": "ä"}


def test_each_method_has_its_own_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """At one path, and at paths that overlap; a method that no route has gets none of another."""

    def answering(said: str) -> Any:
        async def answer(*_: Any) -> dict[str, str]:
            return {"said": said}

        return answer

    def made(_: ModelRegistry) -> Iterator[Route]:
        for path, method in (
            ("/both", "GET"),
            ("/both", "POST"),
            ("/a/{name}", "GET"),
            ("/a/b", "POST"),
            ("/one", "GET"),
        ):
            yield Route(path=path, method=method, handler=answering(f"{method} {path}"), summary="", public=True)  # type: ignore[arg-type]

    monkeypatch.setattr(app, "collect_routes", lambda registry: tuple(made(registry)))
    with run_server(build_registry(BlockingPredictor())) as live:
        said = {(m, p): live.ask(p, method=m).json["said"] for p in ("/both", "/a/b") for m in ("GET", "POST")}
        assert said == {
            ("GET", "/both"): "GET /both",
            ("POST", "/both"): "POST /both",
            ("GET", "/a/b"): "GET /a/{name}",
            ("POST", "/a/b"): "POST /a/b",
        }
        assert live.ask("/both", method="HEAD").status == 200
        for method, path, allowed in (("POST", "/one", "GET, HEAD"), ("PUT", "/both", "GET, HEAD, POST")):
            answer = live.ask(path, method=method)
            assert (answer.status, answer.headers["allow"]) == (405, allowed)
        live.registry.models["held"].close()


def test_refusals_while_the_queue_is_full_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch, limits={"queue": 2}) as held:
        waiting = [held.ask_in_thread("/held", {"text": "a"}) for _ in range(2)]
        held.predictor.wait_for_call(2)
        refused = [held.live.ask("/held", {"text": "a"}) for _ in range(10)]
        assert {each.status for each in refused} == {429}
        assert held.registry.models["held"].num_waiting == 2, (
            "those that came first are still there, so nobody waited for them"
        )
        assert refused[0].headers["retry-after"] == "1"
        held.predictor.go.set()
        assert [each.get().status for each in waiting] == [200, 200]
        assert held.live.ask("/held", {"text": "a"}).status == 200


def test_a_client_that_leaves_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch, limits={"queue": 1}) as held:
        with held.connect() as connection:
            connection.sendall(format_request("/held", method="POST", body=b'{"text": "a"}'))
            held.predictor.wait_for_call()
        for _ in range(500):  # the server learns of it as soon as its loop looks
            if not held.registry.models["held"].num_waiting:
                break
            held.live.ask("/health")
        assert held.registry.models["held"].num_waiting == 0


@pytest.mark.slow
def test_memory_stays_as_it_is_over_many_requests(held: BlockingServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", held.live.port, timeout=WAIT)

    def asked(times: int) -> int:
        for number in range(times):
            path, body = ("/held", b'{"text": "%d"}' % number) if number % 2 else (f"/nowhere-{number}", None)
            connection.request("POST", path, body, {"X-Api-Key": str(number), "X-Request-Id": str(number)})
            answer = connection.getresponse()
            assert answer.status == (200 if number % 2 else 404)
            answer.read()
        gc.collect()
        return len(gc.get_objects())

    before = asked(500)
    assert asked(10_000) - before < 1_000
    connection.close()
