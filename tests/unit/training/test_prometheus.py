"""What Prometheus reads about a training."""

from __future__ import annotations

import math
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families as families

from heedful.errors import MissingExtraError, RecipeError
from heedful.training.callbacks import (
    CallbackList,
    EpochPlan,
    LossSum,
    SavedCheckpoint,
    StepMetrics,
    TrainState,
    ValidationResult,
)
from heedful.training.prometheus import MetricsServer, ReadingCounter, TrainingMetrics
from heedful.training.trainer import StoppingLimits, TrainerConfig


def parse(text: str) -> Mapping[tuple[str, ...], float]:
    """Values by the name and the labels' values, without the prefix."""
    samples = (sample for family in families(text) for sample in family.samples)
    return {
        (sample.name.removeprefix("heedful_training_"), *(value for _, value in sorted(sample.labels.items()))): (
            sample.value
        )
        for sample in samples
    }


def read(metrics: TrainingMetrics) -> Mapping[tuple[str, ...], float]:
    return parse(generate_latest(metrics.registry).decode())


def read_address(server: MetricsServer) -> str:
    with urllib.request.urlopen(server.address, timeout=10) as answer:
        return str(answer.read().decode())


def build_metrics() -> TrainingMetrics:
    limits = StoppingLimits(steps=100, minutes=5.0, patience=3)
    return TrainingMetrics(limits, labels={"run_id": "a1", "run": "en-de"})


def feed(metrics: TrainingMetrics) -> None:
    """Tell about a resumed training: two updates, an evaluation and a checkpoint."""
    state = TrainState(step=40, epoch=1, position=10, labels=900, seconds=7.0, best=0.5, best_step=30, stale=1)
    metrics.on_epoch_begin(EpochPlan(state, updates=50, done=10, batches=50, examples=500, evaluate_every=20))
    parts = {"nll": LossSum(8.0, 4.0), "coverage": LossSum(3.0, 2.0)}
    for step, seconds in ((41, 0.5), (42, 2.0)):
        metrics.on_step_end(
            StepMetrics(
                step, 1, loss=2.5, nll=2.0, rate=1e-3, gradient_norm=0.7, labels=50, seconds=seconds, parts=parts,
                examples=10, elapsed=7.0 + step,
            )
        )  # fmt: skip
    progress = TrainState(step=42, epoch=1, labels=1000, seconds=60.0, best=0.75, best_step=42)
    metrics.on_evaluate(ValidationResult(progress, {"accuracy": 0.75, "loss": math.inf}, True, seconds=4.0))
    metrics.on_save(SavedCheckpoint(progress, seconds=0.25))


def test_every_number_of_a_training_is_there() -> None:
    metrics = build_metrics()
    before = read(metrics)
    assert before["state", "preparing"] == 1
    assert all(math.isnan(before[name,]) for name in ("best", "checkpoint_step", "remaining_seconds"))
    start = time.time()
    feed(metrics)
    found = read(metrics)
    expected = {
        ("step",): 42,
        ("epoch",): 1,
        ("epoch_updates",): 50,
        ("epoch_updates_done",): 12,
        ("last_step",): 100,
        ("loss",): 2.5,
        ("nll",): 2.0,
        ("learning_rate",): 1e-3,
        ("gradient_norm",): 0.7,
        ("elapsed_seconds",): 60,
        ("best",): 0.75,
        ("best_step",): 42,
        ("stale_evaluations",): 0,
        ("checkpoint_step",): 42,
        ("labels_total",): 1000,
        ("part_loss", "coverage"): 1.5,
        ("validation", "accuracy"): 0.75,
        ("validation", "loss"): math.inf,
        ("update_seconds_count",): 2,
        ("update_seconds_sum",): 2.5,
        ("update_seconds_bucket", "0.5"): 1,
        ("evaluation_seconds_sum",): 4,
        ("save_seconds_sum",): 0.25,
        ("limit", "steps"): 100,
        ("limit", "minutes"): 5,
        ("limit", "patience"): 3,
        ("state", "training"): 1,
        ("state", "preparing"): 0,
        ("info", "en-de", "a1"): 1,
    }
    assert {key: found[key] for key in expected} == pytest.approx(expected)
    assert ("limit", "epochs") not in found, "which is not set"
    assert start <= found["checkpoint_timestamp_seconds",] <= time.time()
    assert 0 < found["labels_per_second",] <= 100
    assert found["remaining_seconds",] > 0
    assert ("part_loss", "nll") not in found


def test_labels_of_earlier_sessions_are_counted_once() -> None:
    metrics = build_metrics()
    feed(metrics)
    state = TrainState(step=42, epoch=2, labels=1000)
    metrics.on_epoch_begin(EpochPlan(state, updates=50, done=0, batches=50, examples=500, evaluate_every=20))
    assert read(metrics)["labels_total",] == 1000


def test_memory_of_the_process_is_there() -> None:
    assert read(build_metrics())["process_resident_memory_bytes",] > 2**20


def test_memory_of_gpus_in_use_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"memory_allocated": 5, "memory_reserved": 8, "max_memory_allocated": 7}
    for name, size in sizes.items():
        monkeypatch.setattr(torch.cuda, name, lambda number, size=size: size * number)  # the first is not used
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = {key[1:]: value for key, value in read(build_metrics()).items() if key[0] == "gpu_memory_bytes"}
    assert found == {("cuda:1", "allocated"): 5, ("cuda:1", "reserved"): 8, ("cuda:1", "peak"): 7}


def test_metrics_are_read_over_http_until_the_end() -> None:
    metrics = build_metrics()
    with MetricsServer(metrics, host="127.0.0.1", port=0) as server:
        feed(metrics)
        assert server.address.startswith("http://127.0.0.1:")
        assert parse(read_address(server))["step",] == 42
        metrics.set_outcome("finished")
    with pytest.raises(OSError):
        read_address(server)


@pytest.mark.parametrize(("error", "outcome"), [(ValueError, "failed"), (KeyboardInterrupt, "interrupted")])
def test_an_exception_is_an_outcome(error: type[BaseException], outcome: str) -> None:
    metrics = build_metrics()
    with pytest.raises(error), MetricsServer(metrics, host="127.0.0.1", port=0):
        raise error
    assert read(metrics)["state", outcome] == 1


def test_the_end_is_read_by_whoever_reads_regularly() -> None:
    metrics, states = build_metrics(), []
    reads_end = threading.Event()

    def read_regularly() -> None:
        while not reads_end.is_set():
            found = parse(read_address(server))
            states.append(next(key[1] for key, value in found.items() if key[0] == "state" and value))
            if states[-1] == "finished":
                return
            reads_end.wait(0.5)

    with MetricsServer(metrics, host="127.0.0.1", port=0) as server:
        thread = threading.Thread(target=read_regularly)
        thread.start()
        while len(states) < 2:
            time.sleep(0.01)
        metrics.set_outcome("finished")
    reads_end.set()
    thread.join(10)
    assert states == ["preparing", "preparing", "finished"]


def test_nobody_waits_for_a_reader_who_came_once_or_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    once, gone = ReadingCounter(), ReadingCounter()
    once.note_reading()
    gone.note_reading()
    gone.note_reading()
    now = 2000.0
    for readings in (ReadingCounter(), once, gone):
        monkeypatch.setattr(readings._event, "wait", lambda _: pytest.fail("waits"))
        readings.wait_for_next()


def test_an_interrupted_training_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = build_metrics()
    monkeypatch.setattr(metrics.readings, "wait_for_next", lambda: pytest.fail("waits"))
    with MetricsServer(metrics, host="127.0.0.1", port=0):
        metrics.set_outcome("interrupted")


def test_an_address_that_cannot_be_used_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RecipeError, match=rf"--metrics-port {port}: another program .*choose another"):
            MetricsServer(build_metrics(), host="127.0.0.1", port=port)
    with pytest.raises(RecipeError, match=r"--metrics-port 70000: is not a port; take one"):
        MetricsServer(build_metrics(), host="127.0.0.1", port=70_000)
    for host in ("192.0.2.1", "nowhere.invalid"):
        with pytest.raises(RecipeError, match=rf"--metrics-host {host}: cannot listen there .*; take an address"):
            MetricsServer(build_metrics(), host=host, port=0)


def test_without_the_package_an_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtraError, match=r'pip install "heedful\[monitoring\]"'):
        build_metrics()


def test_training_without_metrics_does_not_read_the_package() -> None:
    code = "import sys, heedful.training.prometheus, heedful.runs.train; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("num_steps", [4, 5])
def test_a_trainer_tells_of_each_checkpoint_after_it_was_saved(
    bench: Callable[..., Any], toy: Callable[..., Any], num_steps: int
) -> None:
    made = bench(toy(), habits=TrainerConfig(evaluate_every=2), limits=StoppingLimits(steps=num_steps))
    told: list[tuple[int, int]] = []

    class Noted(type(made.diary)):  # type: ignore[misc]
        def on_save(self, checkpoint: SavedCheckpoint) -> None:
            assert 0 < checkpoint.seconds < 60
            told.append((checkpoint.progress.step, len(made.diary.saved)))

    made.trainer.callback = CallbackList([Noted(), build_metrics()])
    made.trainer.run()
    metrics = read(made.trainer.callback.callbacks[1])
    assert told == [(2, 1), (4, 2), (5, 3)][: num_steps - 2]
    assert (metrics["checkpoint_step",], metrics["save_seconds_count",]) == (num_steps, len(told))
