"""How all benchmarks compute numbers from rounds and write tables."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def comparison(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("comparison")


def test_speeds_are_formatted_as_median_and_range(comparison: Any) -> None:
    assert str(comparison.Speeds((1200.4, 90.0, 3.14159))) == "90.0 (3.14-1,200)"
    assert comparison.Speeds((1.0, 2.0, 100.0)).median == 2


def test_rounds_are_compared_one_by_one(comparison: Any) -> None:
    """Both sides of a ratio come from the same round, because the load of the machine changes."""
    first, second = comparison.Speeds((100.0, 10.0, 30.0)), comparison.Speeds((50.0, 5.0, 10.0))
    assert first.compute_ratio(second) == 2
    assert second.compute_ratio(first) == 0.5
    with pytest.raises(ValueError, match="zip"):
        first.compute_ratio(comparison.Speeds((1.0,)))


def test_a_report_is_written_as_it_is_shown(
    comparison: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = comparison.Report("Speed", ["one note"], raw={"tiny": {"a": [1.5]}})
    report.tables.append(("tiny", ["contestant", "speed"], [["a", "1.50"], ["b", "2.00"]]))
    report.publish(markdown=tmp_path / "a.md", json_file=tmp_path / "a.json")
    expected = """\
# Speed

- one note

## tiny

| contestant | speed |
| --- | ---: |
| a | 1.50 |
| b | 2.00 |
"""
    assert (tmp_path / "a.md").read_text(encoding="utf-8") == capsys.readouterr().out == expected
    content = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert content == {"title": "Speed", "notes": ["one note"], "tiny": {"a": [1.5]}}


def test_a_training_table_has_wall_clock_time_and_processor_time(comparison: Any) -> None:
    """Wall-clock times are compared within rounds; of the processor time, the best round counts."""

    def build_rounds(*seconds: tuple[float, float]) -> list[dict[str, float]]:
        return [{"tokens": 60, "seconds": clock, "processor": own, "loss": 2.5} for clock, own in seconds]

    measured = {"a": build_rounds((1, 2), (2, 1), (4, 3)), "b": build_rounds((2, 4), (2, 3), (2, 5))}
    head, rows = comparison.build_training_table(measured, ("b", "absent"))
    assert head == ["contestant", "tokens/s: median (range)", "x b", "per processor second: best", "loss"]
    assert rows == [
        ["a", "30.0 (15.0-60.0)", "1.00", "60.0", "2.50"],
        ["b", "30.0 (30.0-30.0)", "1.00", "20.0", "2.50"],
    ]
    head, rows = comparison.build_training_table(
        {**measured, "products": build_rounds((1, 0.5), (1, 0.75), (1, 1))}, ("b",)
    )
    assert head[4] == "of products alone"
    assert {row[0]: row[4] for row in rows} == {"a": "0.50", "b": "0.17", "products": "1.00"}


def test_the_slowest_of_several_processes_stops_the_clock(comparison: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    training, translation = (importlib.import_module(name) for name in ("training", "translation"))
    jobs = []

    class WorkerGroup:
        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> WorkerGroup:
            return self

        def __exit__(self, *_: object) -> None: ...

        def run_job(self, job: dict[str, Any]) -> list[dict[str, Any]]:
            jobs.append(job)
            results = (
                {"seconds": 2.0, "tokens": 60, "processor": 1.5},
                {"seconds": 3.0, "tokens": 60, "processor": 1.0},
            )
            return [{**each, "translations": {f"{n}": "a", "both": "b"}} for n, each in enumerate(results)]

    monkeypatch.setattr(training, "WorkerGroup", WorkerGroup)
    options = training.Options(warmup=5, updates=7)
    measurement = training._measure_turn(comparison.Contestant("x", {}), options)
    assert (measurement["tokens"], measurement["seconds"], measurement["processor"]) == (60, 3.0, 2.5)
    assert jobs == [{"updates": 5}, {"updates": 7}], "the warm-up is not measured"
    result = translation._measure_turn(WorkerGroup(), (1, 4), translation.Options())
    assert (result["speed"], result["seconds"]) == (pytest.approx(3 / 3.0), 3.0), "a sentence counts once"
