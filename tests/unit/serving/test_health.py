"""Whether the server lives, whether it answers, and what its page says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from blocking_server import BlockingServer, run_blocking_server
from live_server import open_registry, run_server
from prometheus_client.parser import text_string_to_metric_families as families

import heedful
from heedful.runs.prepare import read_run_id
from heedful.serving.app import ServerApp, mount_health_routes
from heedful.serving.auth import format_key_line
from heedful.serving.health import ServedState, ServerHealth, _format_duration, collect_health, render_health_page
from heedful.serving.metrics import WorkerState
from heedful.serving.registry import ModelRegistry
from heedful.serving.settings import ServerSettings

PATHS = ("/health", "/livez", "/readyz")
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingServer]:
    with run_blocking_server(monkeypatch) as found:
        found.predictor.go.set()
        yield found


def list_statuses(held: BlockingServer) -> tuple[int, ...]:
    return tuple(held.live.ask(path).status for path in PATHS)


def test_a_server_that_is_ready(held: BlockingServer) -> None:
    assert list_statuses(held) == (200, 200, 200)
    assert held.live.ask("/livez").json == held.live.ask("/readyz").json == {"status": "ok"}
    found = held.live.ask("/health").json
    assert (found["status"], found["workers"]) == ("ok", [])
    assert found["models"] == [{"name": "held", "kind": "model", "state": "ready", "waiting": 0, "run_id": None}]
    assert (found["versions"]["heedful"], found["versions"]["torch"]) == (heedful.__version__, torch.__version__)
    assert 0 <= found["uptime_seconds"] < 60


@pytest.mark.parametrize("state", ["loading", "ending"])
def test_a_server_that_loads_or_ends_lives_and_is_not_ready(held: BlockingServer, state: str) -> None:
    held.registry.state = state
    assert list_statuses(held) == (503, 200, 503)
    answer = held.live.ask("/readyz")
    assert (answer.json, answer.headers["retry-after"]) == ({"status": state}, "5")
    assert held.live.ask("/held", {"text": "a"}).status == 503
    found = held.live.ask("/health").json
    assert found["status"] == state
    assert len(found["models"]) == (state == "ending"), "what is being loaded is not looked at"
    assert b"heedful_ready 0.0" in held.registry.metrics.render_text()


def test_before_models_are_loaded_the_settings_name_them(tmp_path: Path) -> None:
    settings = ServerSettings.model_validate(
        {"models": {"en-de": {"run": tmp_path}}, "indices": {"w": {"folder": "x"}}}
    )
    registry = ModelRegistry(settings, {}, {})
    app = ServerApp(registry)
    mount_health_routes(app, registry)
    assert app._find_path("/livez", "GET") is not None
    assert app._find_path("/translate", "POST") is None
    assert collect_health(registry).models == [
        ServedState("en-de", "model", "loading"),
        ServedState("w", "index", "loading"),
    ]


def test_a_model_that_nothing_computes_is_unavailable(held: BlockingServer) -> None:
    held.registry.models["held"].backend = SimpleNamespace(is_ready=False, close=lambda: None)  # type: ignore[assignment]
    assert list_statuses(held) == (503, 200, 503)
    found = held.live.ask("/health").json
    assert (found["status"], found["models"][0]["state"]) == ("unavailable", "unavailable")


def test_requests_that_wait_are_counted(held: BlockingServer) -> None:
    held.predictor.go.clear()
    waiting = held.ask_in_thread("/held", {"text": "a"})
    held.predictor.wait_for_call()
    assert held.live.ask("/health").json["models"][0]["waiting"] == 1
    held.predictor.go.set()
    waiting.get()
    assert held.live.ask("/health").json["models"][0]["waiting"] == 0


@pytest.mark.parametrize(
    ("accept", "is_html"),
    [
        (HTML["Accept"], True),
        ("TEXT/HTML", True),
        ("application/json, text/html", False),
        ("text/html;q=0.9, application/json", True),
        ("*/*", False),
        ("", False),
    ],
)
def test_people_get_a_page_and_programs_get_json(held: BlockingServer, accept: str, is_html: bool) -> None:
    answer = held.live.ask("/health", headers={"Accept": accept})
    assert answer.headers["content-type"].startswith("text/html" if is_html else "application/json")
    assert answer.headers["cache-control"] == "no-store"


def test_the_page_says_what_the_json_says(held: BlockingServer) -> None:
    held.registry.list_workers = lambda: [WorkerState(1, True, 3, 2, "signal 9"), WorkerState(2, False)]
    answer = held.live.ask("/health", headers=HTML)
    page = answer.body.decode()
    assert answer.status == 200
    assert "<h1>heedful: ready</h1>" in page
    cells = re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", page)
    rows = [
        ("held", "model", "ready", "0", "-"),
        ("1", "ready", "3", "2", "signal 9"),
        ("2", "not ready", "0", "0", "-"),
    ]
    for row in rows:
        assert any(tuple(cells[start : start + 5]) == row for start in range(len(cells))), row
    assert not re.search(r"<script|style=|onclick", page)
    held.registry.state = "ending"
    answer = held.live.ask("/health", headers=HTML)
    assert answer.status == 503
    assert b"not ready: ending" in answer.body


def test_names_are_escaped() -> None:
    health = ServerHealth("<b>", 1.0, [ServedState("<script>", "model", "ready", 0, "<i>")], [], {"a&b": "1"})
    page = render_health_page(health)
    assert not re.search(r"<script|<b>|<i>", page)
    assert "a&amp;b" in page


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.9, "59 s"), (60, "1 min"), (3_661, "1 h 1 min"), (180_000, "2 d 2 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert _format_duration(seconds) == text


def test_with_keys_only_those_who_have_one_see_details(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text(format_key_line("laptop", "the-key"))
    with run_blocking_server(monkeypatch, access={"keys": path}) as held:
        assert held.live.ask("/health").json == {"status": "ok"}
        assert held.live.ask("/health", headers=HTML).json == {"status": "ok"}
        full = held.live.ask("/health", headers={"Authorization": "Bearer the-key"})
        assert full.json["models"]
        assert b"the-key" not in full.body and b"laptop" not in full.body
        assert b"<table>" in held.live.ask("/health?api_key=the-key", headers=HTML).body
        assert held.live.ask("/health", headers={"Authorization": "Bearer other"}).status == 401
        assert list_statuses(held) == (200, 200, 200), "monitoring needs no key"


def test_nothing_private_is_in_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    private = {"host": "127.0.0.1", "tracing": {"endpoint": "http://user:password@collector:4318"}}
    with run_blocking_server(monkeypatch, **private) as held:
        body = held.live.ask("/health").body + held.live.ask("/health", headers=HTML).body
    for secret in (b"password", b"collector", str(tmp_path).encode(), str(Path.cwd()).encode(), b"127.0.0.1"):
        assert secret not in body


def read_metric(live: Any, name: str) -> dict[str, float]:
    found = families(live.ask("/metrics").body.decode())
    return {"".join(sample.labels.values()): sample.value for f in found for sample in f.samples if sample.name == name}


@pytest.mark.slow
def test_processes_that_compute_are_watched(trained: Path, unchecked: None) -> None:
    registry = open_registry({"digits": trained}, workers=2)
    with run_server(registry) as live:
        found = live.ask("/health").json
        assert [worker["is_ready"] for worker in found["workers"]] == [True, True]
        assert found["models"][0]["run_id"] == read_run_id(trained) is not None
        assert read_metric(live, "heedful_worker_ready") == {"1": 1, "2": 1}
        os.kill(registry.models["digits"].backend._pool._workers[0]._process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        until = time.monotonic() + 60
        while live.ask("/health").json["workers"][0]["is_ready"]:
            assert time.monotonic() < until
        assert [live.ask(path).status for path in PATHS] == [200] * 3, "the other one computes"
        while read_metric(live, "heedful_worker_restarts_total")["1"] == 0:
            assert time.monotonic() < until
        first, second = live.ask("/health").json["workers"]
        assert (first["last_exit"], second["restarts"]) == ("signal 9", 0)
    for model in registry.models.values():
        model.close()


def test_metrics_of_the_state(held: BlockingServer) -> None:
    held.registry.models["held"].run_id = "abc"
    held.registry.list_workers = lambda: [WorkerState(1, True, 3, 2), WorkerState(2, False)]
    assert read_metric(held.live, "heedful_ready") == {"": 1}
    assert read_metric(held.live, "heedful_info") == {heedful.__version__: 1}
    assert read_metric(held.live, "heedful_model_info") == {"heldabc": 1}
    assert read_metric(held.live, "heedful_worker_ready") == {"1": 1, "2": 0}
    assert read_metric(held.live, "heedful_worker_examples") == {"1": 3, "2": 0}
    assert read_metric(held.live, "heedful_worker_restarts_total") == {"1": 2, "2": 0}


def test_health_is_answered_before_torch_is_read() -> None:
    code = "import sys, heedful.serving.health; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
