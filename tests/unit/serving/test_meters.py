"""What /metrics tells."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from blocking_server import BlockingServer, run_blocking_server
from live_server import open_registry, run_server
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families as families

from heedful.serving.metrics import ServerMetrics


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingServer]:
    with run_blocking_server(monkeypatch) as found:
        yield found


def numbers(text: bytes) -> Mapping[tuple[str, ...], float]:
    """Each by its name and the values of its labels, in the order of their names."""
    samples = (sample for family in families(text.decode()) for sample in family.samples)
    return {(each.name, *(value for _, value in sorted(each.labels.items()))): each.value for each in samples}


def told(held: BlockingServer) -> Mapping[tuple[str, ...], float]:
    return numbers(held.live.ask("/metrics").body)


def test_requests_by_route_and_status(held: BlockingServer) -> None:
    held.predictor.go.set()
    for _ in range(3):
        held.live.ask("/held", {"text": "a"})
    held.live.ask("/held", {"text": 1})
    held.live.ask("/held", method="GET")
    held.live.ask("/nowhere?a=b")
    held.live.ask("/no/<where>", method="PUT")
    held.predictor.fails = MemoryError()
    held.live.ask("/held", {"text": "a"})
    found = told(held)
    counted = {
        ("POST", "/held", "200"): 3,
        ("POST", "/held", "400"): 1,
        ("POST", "/held", "500"): 1,
        ("GET", "/held", "405"): 1,
        ("GET", "other", "404"): 1,
        ("other", "other", "404"): 1,
    }
    assert {labels: found["heedful_requests_total", *labels] for labels in counted} == counted
    assert found["heedful_request_seconds_count", "/held"] == 6
    assert 0 < found["heedful_request_seconds_sum", "/held"] < 60
    assert found["heedful_uptime_seconds",] > 0
    assert {labels[1] for name, *labels in found if name == "heedful_requests_total"} == {"/held", "other"}, (
        "nothing that somebody sent is a label"
    )


def test_queues(held: BlockingServer) -> None:
    waiting = [held.ask_in_thread("/held", {"text": "a"}) for _ in range(2)]
    held.predictor.wait_for_call(2)
    assert told(held)["heedful_waiting", "held"] == 2
    held.predictor.go.set()
    for each in waiting:
        each.get()
    assert told(held)["heedful_waiting", "held"] == 0


def test_batches_and_tokens(held: BlockingServer) -> None:
    held.registry.metrics.record_batch("held", 3)
    held.registry.metrics.record_batch("held", 64)
    held.registry.metrics.count_tokens("held", 40)
    held.registry.metrics.count_tokens("held", 2)
    found = told(held)
    assert (found["heedful_batch_rows_count", "held"], found["heedful_batch_rows_sum", "held"]) == (2, 67)
    assert found["heedful_batch_rows_bucket", "4.0", "held"] == 1
    assert found["heedful_tokens_total", "held"] == 42


def test_connections_that_are_turned_away(held: BlockingServer) -> None:
    with held.connect() as connection:
        connection.sendall(b"hello\r\n\r\n")
        while connection.recv(1_000):
            pass
    assert told(held)["heedful_refused_connections_total", "400"] == 1


def test_the_format_of_prometheus(held: BlockingServer) -> None:
    answer = held.live.ask("/metrics")
    assert re.match(r"text/plain; version=[\d.]+; charset=utf-8", answer.headers["content-type"])
    alone = held.live.ask("/metrics", method="HEAD")
    assert (alone.status, alone.body) == (200, b"")
    assert alone.headers["content-type"] == answer.headers["content-type"]


def test_houses_count_apart_and_nothing_is_global() -> None:
    first, second = ServerMetrics(), ServerMetrics()
    first.count_tokens("a", 1)
    assert b'heedful_tokens_total{model="a"} 1.0' in first.render_text()
    assert b"heedful_tokens_total{" not in second.render_text()
    assert not [family.name for family in REGISTRY.collect() if family.name.startswith("heedful")]


def test_threads_count_together() -> None:
    meters = ServerMetrics()
    threads = [threading.Thread(target=lambda: [meters.count_tokens("a", 1) for _ in range(500)]) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert numbers(meters.render_text())["heedful_tokens_total", "a"] == 4_000


def test_batches_and_tokens_of_a_real_model_are_counted(trained: Path, unchecked: None) -> None:
    with run_server(open_registry({"digits": trained})) as live:
        answers = live.ask("/v1/heedful/translate", {"texts": ["1 2", "3"]}).json["answers"]
        tokens = sum(len(answer["candidates"][0]["tokens"]) for answer in answers)
        found = numbers(live.ask("/metrics").body)
        assert found["heedful_batch_rows_count", "digits"] > 0
        assert found["heedful_tokens_total", "digits"] == tokens > 0
