"""The server and the command on a Ray cluster, which is this machine."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

import heedful
from heedful.errors import RecipeError
from heedful.serving.settings import Settings, load_settings
from heedful.serving.spread import build

without_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")


@contextmanager
def replicas(run: Path, port: int, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A command that serves a run on Ray, when it is ready."""
    words = [f"en-de={run}", "--ray", "--port", str(port), "--log", "none", "--device", "cpu", *options]
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
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/translate", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["translatedText"], "x-request-id" in answer.headers

    with replicas(trained, port, "--ray.replicas", "2", "--ray.cpus", "0.5") as process:
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(ask, sentences))
        pids = _replicas()
    assert [text for text, _ in found] == expected
    assert len(pids) == 2
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
    cut = b"".join(whole.splitlines(keepends=True)[:20])
    (out / ".a.txt.growing").write_bytes(cut + b"what was written when the power failed")
    (out / ".a.txt.growing.json").write_text(json.dumps([20, len(cut)]))
    scattered = [*command, "--ray", str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), "-o", str(out), "--workers", "1"]
    said = subprocess.run(scattered, check=True, capture_output=True, text=True).stderr
    assert "a.txt: 60 lines" in said
    assert {each.name for each in out.iterdir()} == {"a.txt", "b.txt"}
    assert (out / "a.txt").read_bytes() == whole
    assert (out / "b.txt").read_bytes() == (tmp_path / "b.alone").read_bytes()
    again = subprocess.run(scattered, check=True, capture_output=True, text=True).stderr
    assert "2 of 2 files are there" in again


@pytest.fixture
def complaint(tmp_path: Path, trained: Path) -> Callable[..., str]:
    """What `heedful translate --ray` says of options."""
    from heedful.cli.translate import run

    (tmp_path / "a.txt").write_text("1\n", encoding="utf-8")

    def say(*words: object) -> str:
        with pytest.raises(RecipeError) as error:
            run([str(trained), "--ray", str(tmp_path / "a.txt"), *map(str, words)])
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
    assert Settings().ray.most is None
