"""The server and the command on a Ray cluster, which is this machine."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.errors import RecipeError
from heedful.serving.ray_serve import Replica, build
from heedful.serving.settings import ServerSettings, load_settings

without_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")


def lived(settings: ServerSettings, requests: Sequence[Sequence[tuple[bytes, bytes]]]) -> list[int]:
    """The statuses of requests with these headers to a replica that begins before and ends behind them."""

    async def live() -> list[int]:
        replica, statuses = Replica(settings), list[int]()
        told: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        said: asyncio.Queue[Any] = asyncio.Queue()
        life = asyncio.create_task(replica({"type": "lifespan"}, told.get, said.put))
        await told.put({"type": "lifespan.startup"})
        assert await said.get() == {"type": "lifespan.startup.complete"}
        for headers in requests:
            sent: asyncio.Queue[Any] = asyncio.Queue()
            scope = {"type": "http", "method": "GET", "path": "/health", "query_string": b"", "headers": headers}
            gone: asyncio.Future[Any] = asyncio.Future()
            await replica(scope, lambda gone=gone: gone, sent.put)
            statuses.append((await sent.get())["status"])
        await told.put({"type": "lifespan.shutdown"})
        await life
        return statuses

    return asyncio.run(live())


def test_a_replica_has_the_log_and_the_limits_of_the_settings(capfd: pytest.CaptureFixture[str]) -> None:
    settings = ServerSettings.model_validate({"log": "json", "limits": {"headers": 3, "header_bytes": 60}})
    host = (b"host", b"localhost")
    given = [[host], [host] * 4, [host, (b"x", b"a" * 100)], [host, (b"x-request-id", b"mine")]]
    assert lived(settings, given) == [200, 431, 431, 200]
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [(line["path"], line["status"]) for line in lines] == [("/health", 200)] * 2
    assert lines[1]["id"] == "mine"
    assert lived(settings.model_copy(update={"log": "none"}), given[:1]) == [200]
    assert capfd.readouterr().err == ""


@contextmanager
def replicas(run: Path, port: int, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A command that serves a run on Ray, when it is ready."""
    words = [f"en-de={run}", "--ray", "--port", str(port), "--device", "cpu", *options]
    process = subprocess.Popen([sys.executable, "-m", "heedful", "serve", *words], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        assert any(line.strip() == "ready" for line in process.stderr), "it was never ready"
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


@pytest.mark.slow
@without_ray
def test_two_replicas_answer_as_one(trained: Path) -> None:
    translator = heedful.load(trained, kind=heedful.Translator, device="cpu")
    sentences = [" ".join("0123456789"[(at + k) % 10] for k in range(1 + at % 5)) for at in range(40)]
    expected = [each.text for each in translator.translate(sentences)]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def ask(sentence: str) -> tuple[str, bool]:
        body = json.dumps({"q": sentence, "source": "en", "target": "de"}).encode()
        headers = {"Content-Type": "application/json", "X-Request-Id": sentence.replace(" ", ".")}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/translate", body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["translatedText"], "x-request-id" in answer.headers

    with replicas(trained, port, "--ray.replicas", "2", "--ray.cpus", "0.5") as process:
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(ask, sentences))
        pids = _replicas()
        logs = [path.read_text() for path in Path("/tmp/ray/session_latest/logs").glob("worker-*.err")]
    assert [text for text, _ in found] == expected
    assert len(pids) == 2
    lines = [line for log in logs for line in log.splitlines() if " POST /translate 200 " in line]
    assert {line.split()[1] for line in lines} == {each.replace(" ", ".") for each in sentences}
    assert process.returncode == 0


def _replicas() -> set[int]:
    """Processes that are replicas of Ray Serve."""
    named = (path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if b"ServeReplica:heedful" in _read(path))
    return {int(path.name) for path in named}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


@pytest.mark.slow
@without_ray
def test_files_are_translated_as_the_command_would_and_gone_on_with(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{n % 10} {n // 10 % 10}\n" for n in range(60)), encoding="utf-8")
    (tmp_path / "b.txt").write_text("1 2 3\n\n4\n", encoding="utf-8")
    command = [sys.executable, "-m", "heedful", "translate", str(trained), "--device", "cpu"]
    for name in "ab":
        alone = [*command, "--input", str(tmp_path / f"{name}.txt"), "-o", str(tmp_path / f"{name}.alone")]
        subprocess.run(alone, check=True, capture_output=True)
    out = tmp_path / "out"
    out.mkdir()
    whole = (tmp_path / "a.alone").read_bytes()
    (out / ".a.txt.growing").write_bytes(b"what another version has written")
    (out / ".a.txt.growing.json").write_text(json.dumps([20, 10]))
    scattered = [*command, "--ray", str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), "-o", str(out), "--workers", "1"]
    said = subprocess.run(scattered, check=True, capture_output=True, text=True).stderr
    assert "a.txt: 60 lines" in said
    assert {each.name for each in out.iterdir()} == {"a.txt", "b.txt"}
    assert (out / "a.txt").read_bytes() == whole
    assert (out / "b.txt").read_bytes() == (tmp_path / "b.alone").read_bytes()
    again = subprocess.run(scattered, check=True, capture_output=True, text=True).stderr
    assert "2 of 2 files exist already" in again


@pytest.fixture
def complaint(tmp_path: Path, trained: Path) -> Callable[..., str]:
    """What `heedful translate --ray` says of options."""
    from heedful.cli.commands import run_command

    (tmp_path / "a.txt").write_text("1\n", encoding="utf-8")

    def say(*words: object) -> str:
        with pytest.raises(RecipeError) as error:
            run_command("translate", [str(trained), "--ray", str(tmp_path / "a.txt"), *map(str, words)])
        return str(error.value)

    return say


def test_what_does_not_go_with_many_files_is_refused(complaint: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.txt").write_text("1\n", encoding="utf-8")
    out = ("-o", tmp_path / "out")
    assert "name a folder" in complaint()
    assert "name a folder" in complaint("-o", tmp_path / "a.txt")
    assert "--text" in complaint(*out, "--text", "1 2")
    assert "two files are called a.txt" in complaint(tmp_path / "more" / "a.txt", *out)
    assert "no such file" in complaint(tmp_path / "none.txt", *out)
    assert "choose another folder" in complaint("-o", tmp_path)
    assert "--workers" in complaint(*out, "--workers", "0")


def test_configurations_of_ray_name_a_file(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="one argument"):
        build({})
    with pytest.raises(RecipeError, match=r"ray\.most"):
        load_settings(None, ["--ray.replicas", "3", "--ray.most", "2"], {})
    assert ServerSettings().ray.most is None
