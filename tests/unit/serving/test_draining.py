"""How a server begins and ends."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import blocking_server
import pytest
from blocking_server import WAIT, BlockingServer, ThreadResult, format_request, read_until_closed, run_blocking_server
from live_server import ServerResponse, run_server

import heedful
from heedful.serving import server as server_module
from heedful.serving.app import ServerApp
from heedful.serving.registry import ModelRegistry
from heedful.serving.settings import ServerSettings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has other signals")


@dataclass
class Process:
    """A server in a process of its own."""

    process: subprocess.Popen[bytes]
    log: Path
    port: int = 0

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)

    def ask(self, path: str) -> ServerResponse:
        with closing(self.connect()) as connection:
            return asked(connection, path)

    def refuses(self) -> bool:
        """Whether it takes no connections, soon."""
        for _ in range(10_000):
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=WAIT).close()
            except ConnectionError:
                return True
        return False

    def end(self) -> tuple[int, str]:
        code = self.process.wait(WAIT)
        return code, self.log.read_text()


def asked(connection: http.client.HTTPConnection, path: str) -> ServerResponse:
    connection.request("POST" if path == "/held" else "GET", path, b'{"text": "a"}' if path == "/held" else None)
    answer = connection.getresponse()
    return ServerResponse(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())


@contextmanager
def running(folder: Path, *words: str, loaded: bool = True) -> Iterator[Process]:
    script = Path(blocking_server.__file__).parent / "blocking_server_process.py"
    paths = [str(script.parent), str(Path(heedful.__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(script), *words]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        try:
            found = Process(process, folder / "log")
            found.port = int(found.hear())
            if loaded:
                found.say("load")
                for _ in range(10_000):
                    if found.ask("/health").status == 200:
                        break
            yield found
        finally:
            process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.slow
def test_it_listens_while_models_are_loaded_and_is_ready_then(folder: Path) -> None:
    with running(folder, loaded=False) as server:
        for path in ("/health", "/held", "/metrics", "/nowhere"):
            answer = server.ask(path)
            assert (answer.status, answer.headers["retry-after"]) == (503, "5"), path
            assert "loading" in (answer.json["status"] if path == "/health" else answer.json["error"]["message"])
        assert server.ask("/livez").status == 200
        server.say("load")
        answer = server.ask("/health")
        for _ in range(10_000):
            if answer.status == 200:
                break
            answer = server.ask("/health")
        assert answer.json["status"] == "ok"
        server.process.send_signal(signal.SIGINT)
        code, told = server.end()
    assert code == 0
    said = [line for line in told.splitlines() if " GET " not in line and " POST " not in line]
    assert said == ["held: BlockingPredictor", f"http://127.0.0.1:{server.port}", "ready"]


@pytest.mark.slow
def test_what_cannot_be_loaded_ends_it(folder: Path) -> None:
    with running(folder, loaded=False) as server:
        server.say("damage")
        server.say("load")
        assert server.end() == (2, "heedful: held: is damaged\n")


@pytest.mark.slow
def test_a_signal_while_models_are_loaded_ends_it(folder: Path) -> None:
    with running(folder, loaded=False) as server:
        assert server.ask("/health").status == 503
        server.process.send_signal(signal.SIGTERM)
        code, told = server.end()
    assert (code, "ready" in told) == (0, False)


def test_models_that_are_loaded_too_late_open_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "load_into", lambda *_: None)
    said: list[str] = []
    registry = ModelRegistry(ServerSettings(processes=0), {}, {})
    registry.state = "ending"
    late = server_module.ModelLoader(
        registry, ServerApp(registry), address="here", log=said.append, on_failure=lambda: None
    )
    late.run()
    assert (registry.state, said, late.error) == ("ending", [], None)


def test_a_signal_lets_answers_be_finished(folder: Path) -> None:
    with running(folder) as server, closing(server.connect()) as open_already:
        assert asked(open_already, "/health").status == 200
        waiting = [ThreadResult(lambda: server.ask("/held")) for _ in range(3)]
        assert [server.hear() for _ in waiting] == ["begun"] * 3
        server.process.send_signal(signal.SIGTERM)
        while (answer := asked(open_already, "/health")).status == 200:  # until it is noticed
            pass
        assert answer.status == 503
        assert answer.headers["retry-after"] == "5"
        assert answer.headers["connection"] == "close"
        assert server.refuses()
        server.say("go")
        for each in waiting:
            found = each.get()
            assert (found.status, found.json) == (200, {"text": "a"})
        code, _ = server.end()
    assert code == 0


@pytest.mark.slow
def test_a_second_signal_ends_at_once(folder: Path) -> None:
    with running(folder) as server, closing(server.connect()) as connection:
        connection.request("POST", "/held", b'{"text": "a"}')
        assert server.hear() == "begun"
        server.process.send_signal(signal.SIGTERM)
        assert server.refuses()
        server.process.send_signal(signal.SIGTERM)
        assert server.end()[0] == 128 + signal.SIGTERM


@pytest.mark.slow
def test_answers_that_take_too_long_are_not_waited_for(folder: Path) -> None:
    with running(folder, "--limits.drain", "0.3") as server:
        waiting = ThreadResult(lambda: server.ask("/held"))
        assert server.hear() == "begun"
        server.process.send_signal(signal.SIGTERM)
        answer = waiting.get()
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        assert server.end()[0] == 0, "though its thread still waits"


@pytest.mark.slow
def test_a_signal_ends_it_while_a_file_is_parsed(folder: Path) -> None:
    with running(folder, "--limits.drain", "0.3") as server:
        waiting = ThreadResult(lambda: server.ask("/parsing"))
        assert server.hear() == "begun"
        server.process.send_signal(signal.SIGTERM)
        answer = waiting.get()
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        assert server.end()[0] == 0


def ending(held: BlockingServer) -> None:
    """Has the server drain, from now on."""
    held.live.server.request_stop()


def test_streams_are_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch) as held, held.connect() as connection:
        connection.sendall(format_request("/stream", method="POST", body=b'{"text": "a"}'))
        held.predictor.wait_for_call()
        ending(held)
        held.predictor.go.set()
        assert read_until_closed(connection).endswith(b"begun\n\r\n1\r\na\r\n0\r\n\r\n")


def test_requests_on_their_way_are_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch) as held, held.connect() as connection:
        content = format_request("/held", method="POST", body=json.dumps({"text": "a" * 100}).encode())
        connection.sendall(content[:40])
        held.live.ask("/health")
        ending(held)
        with pytest.raises(ConnectionError):  # refused, or reset while it closes
            for _ in range(100_000):
                held.connect().close()
        connection.sendall(content[40:])
        found = read_until_closed(connection)
        assert found.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 5\r\n" in found
        assert b"connection: close\r\n" in found


def test_connections_on_which_nothing_happens_do_not_hold_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch, limits={"idle": 60.0}) as held:
        idle = [held.connect() for _ in range(5)]
        idle[0].sendall(format_request())
        assert idle[0].recv(100).startswith(b"HTTP/1.1 200 ")
        ending(held)
        for each in idle:
            read_until_closed(each)
            each.close()


def test_a_house_is_open_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_blocking_server(monkeypatch) as held:
        registry = held.registry
        assert held.live.ask("/health").status == 200
    assert registry.state == "ending"
    with run_server(registry) as live:
        assert live.ask("/health").status == 200
