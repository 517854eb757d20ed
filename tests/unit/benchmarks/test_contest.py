"""What all benchmarks share: how rounds become numbers, and numbers a table."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def contest(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("contest")


def test_speeds_are_told_by_their_median_and_range(contest: Any) -> None:
    assert str(contest.Speeds((1200.4, 90.0, 3.14159))) == "90.0 (3.14-1,200)"
    assert contest.Speeds((1.0, 2.0, 100.0)).median == 2


def test_rounds_are_compared_one_by_one(contest: Any) -> None:
    """The machine may slow down for a round: both sides of a ratio met the same one."""
    mine, other = contest.Speeds((100.0, 10.0, 30.0)), contest.Speeds((50.0, 5.0, 10.0))
    assert mine.over(other) == 2
    assert other.over(mine) == 0.5
    with pytest.raises(ValueError, match="zip"):
        mine.over(contest.Speeds((1.0,)))


def test_a_report_is_written_as_it_is_shown(contest: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = contest.Report("Speed", ["one note"], raw={"tiny": {"a": [1.5]}})
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


def test_a_contest_in_training_is_told_by_the_clock_and_by_the_processor(contest: Any) -> None:
    """On the clock by ratios within a round; of the processor's time the best round counts, as a share of products."""

    def turns(*seconds: tuple[float, float]) -> list[dict[str, float]]:
        return [{"tokens": 60, "seconds": clock, "processor": own, "loss": 2.5} for clock, own in seconds]

    measured = {"a": turns((1, 2), (2, 1), (4, 3)), "b": turns((2, 4), (2, 3), (2, 5))}
    head, rows = contest.training_table(measured, ("b", "absent"))
    assert head == ["contestant", "tokens/s: median (range)", "x b", "per processor second: best", "loss"]
    assert rows == [
        ["a", "30.0 (15.0-60.0)", "1.00", "60.0", "2.50"],
        ["b", "30.0 (30.0-30.0)", "1.00", "20.0", "2.50"],
    ]
    head, rows = contest.training_table({**measured, "products": turns((1, 0.5), (1, 0.75), (1, 1))}, ("b",))
    assert head[4] == "of products alone"
    assert {row[0]: row[4] for row in rows} == {"a": "0.50", "b": "0.17", "products": "1.00"}


def test_the_slowest_of_several_processes_stops_the_clock(contest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    training, translation = (importlib.import_module(name) for name in ("training", "translation"))
    asked = []

    class Team:
        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Team:
            return self

        def __exit__(self, *_: object) -> None: ...

        def ask(self, job: dict[str, Any]) -> list[dict[str, Any]]:
            asked.append(job)
            told = ({"seconds": 2.0, "tokens": 60, "processor": 1.5}, {"seconds": 3.0, "tokens": 60, "processor": 1.0})
            return [{**each, "translations": {f"{n}": "a", "both": "b"}} for n, each in enumerate(told)]

    monkeypatch.setattr(training, "Team", Team)
    options = training.Options(warmup=5, updates=7)
    stretch = training._turn(contest.Contestant("x", {}), options)
    assert (stretch["tokens"], stretch["seconds"], stretch["processor"]) == (60, 3.0, 2.5)
    assert asked == [{"updates": 5}, {"updates": 7}], "what warms up is not measured"
    found = translation._turn(Team(), (1, 4), translation.Options())
    assert (found["speed"], found["seconds"]) == (pytest.approx(3 / 3.0), 3.0), "a sentence counts once"
