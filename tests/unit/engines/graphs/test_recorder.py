"""Recorded steps compute from what their inputs hold now, and their outputs live until the next replay."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from heedful.engines.graphs.recorder import CudaGraphRecorder, EagerRecorder, build_recorder


def test_a_replay_reads_the_inputs_of_now_and_destroys_other_outputs() -> None:
    recorder, x = build_recorder(torch.device("cpu")), torch.ones(2)
    assert isinstance(recorder, EagerRecorder)
    with torch.inference_mode():
        double, triple = recorder.record(lambda: 2 * x), recorder.record(lambda: 3 * x)
    x.fill_(5.0)
    double.replay()
    assert double.output.tolist() == [10.0, 10.0]
    place = double.output.data_ptr()
    triple.replay()
    assert triple.output.tolist() == [15.0, 15.0]
    assert bool(double.output.isnan().all())
    double.replay()
    assert double.output.data_ptr() == place


def test_a_graph_is_captured_after_runs_on_a_stream_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no GPU here: this checks only the order of the calls."""
    calls: list[str] = []

    class Stream:
        def __init__(self, device: torch.device, name: str = "side") -> None:
            assert device == torch.device("cuda:1")
            self.name = name

        def wait_stream(self, other: Any) -> None:
            calls.append(f"{self.name} waits for {other.name}")

    class Graph:
        def replay(self) -> None:
            calls.append("replay")

    @contextmanager
    def enter(name: str) -> Any:
        calls.append(f"enter {name}")
        yield
        calls.append(f"leave {name}")

    def capture(graph: Graph, *, pool: str, stream: Stream, capture_error_mode: str) -> Any:
        assert (type(graph), pool, capture_error_mode) == (Graph, "pool", "thread_local")
        return enter(f"graph on {stream.name}")

    cuda = SimpleNamespace(
        graph_pool_handle=lambda: "pool",
        Stream=Stream,
        current_stream=lambda device: Stream(device, "main"),
        stream=lambda stream: enter(stream.name),
        CUDAGraph=Graph,
        graph=capture,
    )
    monkeypatch.setattr(torch, "cuda", cuda)

    def function() -> torch.Tensor:
        calls.append("run")
        return torch.ones(1)

    recorder = build_recorder(torch.device("cuda:1"))
    assert isinstance(recorder, CudaGraphRecorder)
    recorded = recorder.record(function)
    recorded.replay()
    before = ["side waits for main", "enter side", "run", "run", "run", "leave side"]
    assert calls == [*before, "enter graph on side", "run", "leave graph on side", "main waits for side", "replay"]
