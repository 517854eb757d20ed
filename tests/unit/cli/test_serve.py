"""`heedful serve` until it listens; tests/unit/serving has what follows."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedful.cli import serve
from heedful.serving import server
from heedful.serving.auth import KeyFile
from heedful.serving.settings import ServerSettings


def shown(say: Callable[..., Any], *words: object) -> dict[str, Any]:
    """The settings that words make."""
    said = say("serve", *words, "--print-config")
    assert said.code == 0, said
    return tomllib.loads(said.out)


def test_settings_are_shown_and_can_be_read_again(say: Callable[..., Any], here: Path, trained: Path) -> None:
    first = shown(say, f"en-de={trained}", trained, "--index", "notes=x", "--port", 8000, "--limits.queue", 7)
    assert first["models"] == {"en-de": {"run": str(trained)}, "run": {"run": str(trained)}}
    assert first["indices"] == {"notes": {"folder": str(here / "x")}}
    assert (first["port"], first["limits"]["queue"], first["host"]) == (8000, 7, "127.0.0.1")
    (here / "odd name.toml").write_text(say("serve", f"a b.c={trained}", "--print-config").out, encoding="utf-8")
    again = shown(say, "--config", "odd name.toml", "--models.more.run", trained, "--limits.rate", 3)
    assert list(again["models"]) == ["a b.c", "more"]
    assert again["limits"]["rate"] == 3


def test_a_list_is_names_with_commas_or_a_list(say: Callable[..., Any], here: Path) -> None:
    names = {"hosts": "a.b, c.d", "origins": "*", "proxies": '["10.0.0.0/8", "::1"]'}
    found = shown(say, *(word for name, value in names.items() for word in (f"--access.{name}", value)))["access"]
    assert found == {"hosts": ["a.b", "c.d"], "origins": ["*"], "proxies": ["10.0.0.0/8", "::1"]}
    refused = say("serve", "--access.proxies", "127.0.0.1,nowhere", "--print-config")
    assert refused.code == 2 and "'nowhere' is not an address" in refused.err


def test_every_key_of_the_settings_is_an_option(say: Callable[..., Any], here: Path) -> None:
    values = {"log": "json", "log_texts": "true", "page": "false", "host": "::1", "device": "cpu", "threads": "2"}
    found = shown(say, *(word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", value)))
    assert {name: str(found[name]).lower() for name in values} == values
    for table in ("limits", "access"):
        for name in type(getattr(ServerSettings(), table)).model_fields:
            given = {"hosts": '["a"]', "origins": '["*"]', "proxies": '["10.0.0.0/8"]', "keys": "k.txt"}
            assert name in shown(say, f"--{table}.{name}", given.get(name, "3"))[table], name


def test_how_all_of_them_compute(say: Callable[..., Any], here: Path) -> None:
    (here / "s.toml").write_text('[models]\na = { run = "a" }\n')
    found = shown(say, "b=b", "--config", "s.toml", "--engine", "int8", "--adapter", "c", "--device", "cpu")
    assert {name: (each["engine"], each["adapter"]) for name, each in found["models"].items()} == {
        "a": ("int8", "c"),
        "b": ("int8", "c"),
    }
    assert found["device"] == "cpu"


def test_a_folder_with_an_equals_sign(say: Callable[..., Any], here: Path) -> None:
    (here / "a=b").mkdir()
    assert list(shown(say, "a=b")["models"]) == ["a=b"]
    assert list(shown(say, ".")["models"]) == ["here"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "heedful serve: needs a run folder; write heedful serve RUN, or name models in --config"),
        (("nowhere",), r"{here}/nowhere: no such run folder; check the path"),
        (("a=.", "b=nowhere"), r"{here}/nowhere: no such run folder; check the path"),
        (("a=.", "--index", "nowhere"), r"{here}/nowhere: no such index; check the path"),
        (("a=.", "a=/tmp"), "RUN: two are called 'a'; write other-name=/tmp"),
        (("=x",), "RUN: '=x' has no name or no folder; write name=folder, or a folder"),
        (("a=",), "RUN: 'a=' has no name or no folder; write name=folder, or a folder"),
        (("a=.", "--prot", "3"), "command line: prot = 3 is not a known key; did you mean port?"),
        (("a=.", "--port", "70000"), "command line: port = 70000 must be at most 65535"),
        (("a=.", "--limits.queue", "0"), "command line: limits.queue = 0 must be at least 1"),
        (("a=.", "--limits.deadline", "0"), "command line: limits.deadline = 0 must be above 0"),
        (("a=.", "--config", "none.toml"), "none.toml: cannot be read (No such file or directory); give the path"),
        (("a=.", "--access.keys", "none.txt"), "{here}/none.txt: cannot be read (No such file or directory); give"),
        (
            ("a=.", "--host", "192.0.2.1"),
            "192.0.2.1, port 5000: cannot assign requested address; choose",
        ),
    ],
)
def test_mistakes(say: Callable[..., Any], here: Path, words: tuple[str, ...], complaint: str) -> None:
    assert say("serve", *words).complaint.startswith(complaint.format(here=here))


def test_a_name_that_is_none(say: Callable[..., Any], here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert say("serve", "a=.", "--host", "a.example").complaint == (
        "host 'a.example': is not an address of this machine; take 127.0.0.1, or 0.0.0.0 for all addresses"
    )


def test_a_port_that_is_taken(say: Callable[..., Any], here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        complaint = say("serve", "a=.", "--port", port).complaint
    assert complaint.startswith(f"127.0.0.1, port {port}: another program listens there; choose another --port")


def test_packages_that_are_missing(say: Callable[..., Any], here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name in ("uvicorn", "httptools") else name)
    assert say("serve", "a=.").complaint == (
        'a server needs uvicorn, httptools, not installed here: pip install "heedful[serve]"'
    )


@pytest.mark.parametrize(
    ("host", "is_told"),
    [("0.0.0.0", True), ("::", True), ("192.0.2.1", True), ("127.0.0.1", False), ("::1", False), ("localhost", False)],
)
def test_who_serves_everybody_is_told(
    say: Callable[..., Any], here: Path, monkeypatch: pytest.MonkeyPatch, host: str, is_told: bool
) -> None:
    monkeypatch.setattr(server, "run_server", lambda *_: True)
    said = say("serve", "a=.", "--host", host)
    assert said.code == 0
    assert bool(said.err) == is_told
    if is_told:
        assert said.err.startswith(f"{host}: everyone who can reach this machine can use the server without a key; ")
        assert said.err.count("\n") == 1
    say("serve", "--access.keys", "k.txt", "--new-key")
    assert say("serve", "a=.", "--host", host, "--access.keys", "k.txt").err == ""


def test_new_keys(say: Callable[..., Any], here: Path) -> None:
    said = say("serve", "--new-key")
    assert re.fullmatch(r"heedful-\S{43}\n", said.out)
    told, line = said.err.splitlines()
    assert "--access.keys" in told
    (here / "by-hand.txt").write_text(line + "\n")
    assert KeyFile(here / "by-hand.txt").find_name(said.out.strip()) == "key-1"
    for words, name in ((("--new-key", "laptop"), "laptop"), (("--new-key",), "key-1"), (("--new-key=b",), "b")):
        said = say("serve", "--access.keys", "keys.txt", *words)
        assert said.err.startswith(f"{name}: added to {here}/keys.txt; ")
        assert KeyFile(here / "keys.txt").find_name(said.out.strip()) == name
    assert say("serve", "--new-key", "--access.keys", "keys.txt").out
    assert "has a key 'laptop'" in say("serve", "--access.keys", "keys.txt", "--new-key", "laptop").complaint
    assert "'a b' is not a valid name for a key" in say("serve", "--new-key", "a b").complaint


def test_a_run_that_is_damaged_ends_the_server(say: Callable[..., Any], here: Path) -> None:
    """Whoever looks at it before knows that it loads."""
    complaint = say("serve", "a=.", "--port", 0).complaint
    assert "manifest.json" in complaint


@pytest.mark.slow
def test_a_trained_run_is_served(trained: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "heedful", "serve", f"digits={trained}", "--port", str(port), "--device", "cpu"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        said = []
        while (line := process.stderr.readline().rstrip("\n")) not in ("ready", ""):
            said.append(line)
        assert said[-1] == f"http://127.0.0.1:{port}"
        assert any(line.startswith("digits: Translator") for line in said)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", "/v1/heedful/translate", b'{"texts": "1 2"}')
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
