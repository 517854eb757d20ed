"""Keys in their file, and at the door of every route."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import pytest
from blocking_server import BlockingServer, format_request, run_blocking_server
from live_server import LiveServer, ServerResponse, open_registry, run_server
from task_runs import create_task_runs

from heedful.errors import RecipeError
from heedful.serving.app import collect_routes
from heedful.serving.auth import KeyFile, add_key, format_key_line, generate_key
from heedful.serving.routes import Route


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads of the server call what is checked where it has its units."""


def test_keys_are_random_and_their_file_has_none(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text("# ours\n\n" + format_key_line("old", "old key").rstrip("\n"), encoding="utf-8")
    name, key = add_key(path, "laptop")
    number, another = add_key(path, None)
    assert (name, number) == ("laptop", "key-1")
    assert re.fullmatch(r"heedful-[\w-]{43}", key)
    assert key != another != generate_key()
    content = path.read_text(encoding="utf-8")
    assert key not in content
    assert another not in content
    keys = KeyFile(path)
    assert [keys.find_name(each) for each in ("old key", key, another)] == ["old", "laptop", "key-1"]
    assert [keys.find_name(each) for each in ("", key[:-1], key + " ", "ä\ud800", content.split()[2])] == [None] * 5


def test_only_its_owner_reads_a_file_that_was_made(tmp_path: Path) -> None:
    add_key(tmp_path / "keys.txt", None)
    assert (tmp_path / "keys.txt").stat().st_mode & 0o077 == 0


def test_what_is_wrong_with_a_file_of_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    with pytest.raises(RecipeError, match="cannot be read"):
        KeyFile(path)
    path.write_text("# none yet\n")
    with pytest.raises(RecipeError, match=r"holds no key; add one with: heedful serve --access.keys .* --new-key NAME"):
        KeyFile(path)
    path.write_text("heedful-abc\n")
    with pytest.raises(RecipeError, match=r"keys.txt:1: is not `sha256:HASH NAME`") as told:
        KeyFile(path)
    assert "heedful-abc" not in str(told.value), "it may be a key"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(RecipeError, match="is not a text"):
        KeyFile(path)
    with pytest.raises(RecipeError, match="cannot be"):
        add_key(tmp_path, None)
    with pytest.raises(RecipeError, match="cannot be written"):
        add_key(tmp_path / "nowhere" / "keys.txt", None)
    path.unlink()
    add_key(path, "one")
    with pytest.raises(RecipeError, match="has a key 'one'"):
        add_key(path, "one")
    for odd in ("a b", "#", "", "a" * 65):
        with pytest.raises(RecipeError, match="is not a valid name for a key"):
            format_key_line(odd, "k")


@pytest.mark.parametrize("how", ["in place", "replaced", "replaced with its time"])
def test_a_file_of_equal_length_is_noticed(tmp_path: Path, how: str) -> None:
    """As where one key is exchanged for another: names and hashes are as long as before."""
    path, other = tmp_path / "keys.txt", tmp_path / "other.txt"
    path.write_text(format_key_line("laptop", "old key"), encoding="utf-8")
    keys, before = KeyFile(path), path.stat()
    assert keys.find_name("old key") == "laptop"
    new = path if how == "in place" else other
    new.write_text(format_key_line("laptop", "new key"), encoding="utf-8")
    if how == "replaced with its time":
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    if new is other:
        other.replace(path)
    assert path.stat().st_size == before.st_size
    assert (keys.find_name("old key"), keys.find_name("new key")) == (None, "laptop")


def test_the_file_is_read_again_when_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "keys.txt"
    _, first = add_key(path, "first")
    keys = KeyFile(path)
    _, second = add_key(path, "second")
    assert keys.find_name(second) == "second"
    path.write_text(format_key_line("third", "3"))
    assert (keys.find_name(first), keys.find_name("3")) == (None, "third")
    for spoil in (lambda: path.write_text("half a li"), path.unlink):
        spoil()
        caplog.clear()
        assert (keys.find_name(first), keys.find_name("3")) == (None, "third")
        assert keys.find_name("3") == "third"
        assert [each.levelname for each in caplog.records] == ["ERROR"], "once"
    path.write_text("# nobody\n")
    assert keys.find_name("3") is None


KEY = "a key of mine"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Every route that there is, behind keys."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "keys.txt").write_text(format_key_line("mine", KEY), encoding="utf-8")
    (folder / "served").mkdir()
    spoken = {"source_language": "en", "target_language": "de"}
    models = {
        name: {"run": run, **(spoken if name == "translate" else {})}
        for name, run in create_task_runs(folder / "served").items()
    }
    limits = {"body": 50_000, "file": 200_000}
    with run_server(open_registry(models, access={"keys": folder / "keys.txt"}, limits=limits)) as live:
        yield live


def routes(live: LiveServer) -> list[Route]:
    return list(collect_routes(live.registry))


def filled(path: str) -> str:
    """A path with something for each of its parts."""
    return re.sub(r"\{\w+(:\w+)?\}", "translate", path)


def spellings(path: str) -> list[str]:
    """Ways to write a path that something between a client and a server may take for the same."""
    letter = f"/%{ord(path[1]):02x}{path[2:]}" if len(path) > 1 else path
    odd = [
        path,
        f"/{path}",
        f"//localhost{path}",
        f"{path}/",
        f"{path}//",
        f"{path}/.",
        f"{path}/..{path}",
        f"{path}%2f",
        f"{path}%00",
        f"{path}%20",
        f"{path};a=b",
        f"{path}?",
        f"{path}?api_key=",
        f"{path}#a",
        f"/.{path}",
        f"/%2e{path}",
        f"/%2e%2e{path}",
        f"/a/..{path}",
        f"/a/%2e%2e{path}",
        f"/health/..{path}",
        f"/health%2f..{path}",
        f"/%2f{path[1:]}",
        f"/%5c{path[1:]}",
        path.replace("/", "\\"),
        path.upper(),
        path.title(),
        letter,
        letter.upper(),
        f"/%25{letter[2:]}",
        f"http://localhost{path}",
        f"http://evil.example{path}",
    ]
    return list(dict.fromkeys(odd))


def asked(
    live: LiveServer, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    """The status of a request whose path goes out as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=30)
    connection._validate_path = lambda _: None  # type: ignore[attr-defined]
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


BODY = {"q": "1", "source": "en", "target": "de", "texts": "1", "text": "1", "input": "1"}
"""What some route or other would answer."""


def test_no_route_answers_who_has_no_key(locked: LiveServer) -> None:
    free = {route.path for route in routes(locked) if route.public}
    assert {"/health"} <= free
    assert len(free) < len(routes(locked))
    for route in routes(locked):
        if route.public:
            continue
        for path, method in product(spellings(filled(route.path)), {route.method, "HEAD", "PUT"}):
            content = None if method in ("GET", "HEAD") else json.dumps(BODY).encode()
            status, answer = asked(locked, method, path, content, {"Content-Type": "application/json"})
            assert status in (400, 401, 403, 404, 405, 421), (method, path, status, answer)
            if path == filled(route.path) and method == route.method:
                assert status == route.unauthorized_status, (path, status)


def test_nothing_but_what_is_free_is_told(locked: LiveServer) -> None:
    """A path that is none, and a method that is none, are not told apart from others before there is a key."""
    for path, method in product(("/nowhere", "/metrics", "/v1/models"), ("GET", "POST", "DELETE", "OPTIONS")):
        assert asked(locked, method, path, None, {})[0] == 401
    for route in routes(locked):
        if route.public:
            status, _ = asked(locked, route.method, filled(route.path), None, {})
            assert status in (200, 404), route.path


@pytest.mark.parametrize(
    "kind", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"]
)
@pytest.mark.parametrize(
    "body", [b"", b"{", b"api_key", b'{"api_key": 1}', b'{"api_key": null}', b'{"api_key": ["a"]}']
)
def test_a_body_that_is_broken_lets_nobody_in(locked: LiveServer, kind: str, body: bytes) -> None:
    for route in routes(locked):
        if route.method == "POST" and not route.public:
            status, _ = asked(locked, "POST", filled(route.path), body, {"Content-Type": kind})
            assert status == route.unauthorized_status, (route.path, status)


def test_keys_where_clients_put_them(locked: LiveServer) -> None:
    def status(path: str = "/metrics", **headers: str) -> int:
        return asked(locked, "GET", path, None, {k.replace("_", "-"): v for k, v in headers.items()})[0]

    assert status(Authorization=f"Bearer {KEY}") == 200
    assert status(Authorization=f"bearer  {KEY} ") == 200
    assert status(X_Api_Key=KEY) == 200
    assert status("/metrics?api_key=a%20key%20of%20mine") == 200
    assert status("/metrics?apiKey=a+key+of+mine") == 200
    assert status(Authorization=KEY) == 401
    assert status(Authorization=f"Basic {KEY}") == 401
    assert status(X_Api_Key=KEY.upper()) == 401
    assert status(X_Api_Key=KEY, Authorization="Bearer another") == 401
    assert status("/metrics?api_key=") == 401


def test_keys_in_what_librettranslates_clients_send(locked: LiveServer) -> None:
    table = {"q": "1", "source": "en", "target": "de"}
    for name in ("api_key", "apiKey"):
        answer = locked.ask("/translate", {**table, name: KEY})
        assert (answer.status, list(answer.json)) == (200, ["translatedText"])
    form = b"q=1&source=en&target=de&api_key=a+key+of+mine"
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert locked.ask("/translate", form, headers=kind).status == 200
    assert locked.ask("/translate?" + form.decode(), b"", headers=kind).status == 200
    parts = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in {**table, "api_key": KEY}.items()
    )
    multipart = {"Content-Type": "multipart/form-data; boundary=b"}
    assert locked.ask("/translate", f"{parts}--b--\r\n".encode(), headers=multipart).status == 200
    refused = locked.ask("/translate", {**table, "api_key": "another"})
    assert (refused.status, list(refused.json)) == (403, ["error"])
    answer = locked.ask("/v1/heedful/translate", {"texts": "1", "api_key": KEY})
    assert answer.status == 401, "other protocols have their keys in headers"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json["error"]["code"] == "invalid_api_key"


def form_of(size: int, **fields: str) -> bytes:
    """A form with a file that nobody can translate."""
    texts = (
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    )
    file = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.odd"\r\n\r\n' + "a" * size
    return f"{''.join(texts)}{file}\r\n--b--\r\n".encode()


def test_no_file_is_read_before_there_is_a_key(locked: LiveServer) -> None:
    table = {"source": "en", "target": "de"}

    def answer(size: int, headers: Mapping[str, str], **fields: str) -> ServerResponse:
        kind = {"Content-Type": "multipart/form-data; boundary=b"}
        return locked.ask("/translate_file", form_of(size, **table, **fields), headers={**kind, **headers})

    assert answer(40_000, {}, api_key=KEY).status == 400, "it is let in, and its file is odd"
    assert answer(40_000, {}, api_key="another").status == 403
    for fields in ({}, {"api_key": KEY}):
        refused = answer(100_000, {}, **fields)
        assert refused.status == 413
        assert "50,000" in refused.json["error"]
        assert "X-Api-Key" in refused.json["error"]
    assert answer(100_000, {"X-Api-Key": KEY}).status == 400
    assert "200,000" in answer(300_000, {"X-Api-Key": KEY}).json["error"]
    assert answer(100_000, {"X-Api-Key": "another"}).status == 403


def test_who_has_no_key_is_told_so_before_the_body_is_there(locked: LiveServer) -> None:
    for path, status, sent in (("/translate_file", 413, 60_000), ("/v1/heedful/caption", 401, 10)):
        with socket.create_connection(("127.0.0.1", locked.port), timeout=30) as connection:
            head = format_request(
                path, method="POST", Transfer_Encoding="chunked", Content_Type="multipart/form-data; boundary=b"
            )
            connection.sendall(head + b"%x\r\n" % 1_000_000 + form_of(100_000)[:sent])
            assert int(connection.recv(1_000).split()[1]) == status, path


def test_rates_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch, limits={"rate": 2}) as held:
        held.predictor.go.set()
        statuses = [held.live.ask("/held", {"text": "a"}) for _ in range(3)]
        assert [each.status for each in statuses] == [200, 200, 429]
        assert 1 <= int(statuses[-1].headers["retry-after"]) <= 30
        assert held.live.ask("/nowhere").status == 429, "whatever is asked"
        assert held.live.ask("/health").status == 200, "what is free is no work"


def test_rates_of_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text(format_key_line("one", "1") + format_key_line("two", "2"), encoding="utf-8")

    def status(held: BlockingServer, key: str) -> int:
        return held.live.ask("/held", {"text": "a"}, headers={"X-Api-Key": key}).status

    with run_blocking_server(monkeypatch, limits={"rate": 2}, access={"keys": path}) as held:
        held.predictor.go.set()
        assert [status(held, key) for key in ("1", "1", "1", "2", "x", "2", "2")] == [200, 200, 429, 200, 401, 200, 429]
