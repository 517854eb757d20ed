"""Processes of Ray are killed while they translate files and answer requests (benchmarks/ray_faults.py)."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "ray_faults.py"
LIMIT = 900.0
WHOLE = {"equal": 3, "different": 0, "missing": 0, "lines_missing": 0, "lines_extra": 0, "leftovers": 0}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(LIMIT + 60),
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
]


@pytest.fixture
def measure(trained: Path, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs one part of the script with the small model, and returns its figures."""
    dice = random.Random(5)
    text = tmp_path / "text.en"
    text.write_text("".join(" ".join(dice.choices("0123456789", k=dice.randint(1, 7))) + "\n" for _ in range(200)))

    def run(part: str, *options: object) -> dict[str, Any]:
        words = [str(trained), str(text), "--parts", part, "--files", "3", "--lines", "5000", *map(str, options)]
        command = [sys.executable, str(SCRIPT), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        figures: dict[str, Any] = json.loads(done.stdout)[part]
        print(figures)
        return figures

    return run


def test_workers_that_are_killed_lose_and_double_no_line(measure: Callable[..., dict[str, Any]]) -> None:
    figures = measure("workers", "--kills", 2)
    assert figures["killed"] >= 1
    assert figures["exit"] == 0
    assert figures.items() >= WHOLE.items()


def test_a_command_that_is_killed_goes_on_when_started_again(measure: Callable[..., dict[str, Any]]) -> None:
    figures = measure("driver")
    assert figures["visible_and_wrong"] == 0
    assert figures["exit"] == 0
    assert figures.items() >= WHOLE.items()


def test_a_damaged_file_is_named_and_the_others_are_translated(measure: Callable[..., dict[str, Any]]) -> None:
    figures = measure("damaged")
    assert figures["exit"] == 2
    (message,) = figures["message"]
    assert "1.txt.gz" in message
    assert (figures["others_equal"], figures["others_different"]) == (2, 0)
    assert figures["exit_of_the_second"] == 0
    assert figures.items() >= WHOLE.items()


def test_a_node_that_is_removed_loses_no_line(measure: Callable[..., dict[str, Any]]) -> None:
    figures = measure("nodes")
    assert figures["exit"] == 0
    assert figures.items() >= WHOLE.items()


def test_requests_of_a_killed_replica_are_answered_by_another(measure: Callable[..., dict[str, Any]]) -> None:
    figures = measure("replicas", "--kills", 1, "--requests", 200, "--clients", 8)
    assert figures["sent"] == figures["right"] + figures.get("5xx", 0)  # none is lost or wrong
    assert figures["right"] > 100
    assert figures["after"] == {"right": 8}
    assert figures["exit"] == 0


def test_streams_of_a_killed_replica_do_not_look_complete(measure: Callable[..., dict[str, Any]]) -> None:
    figures = measure("streams", "--kills", 1, "--requests", 200, "--clients", 8)
    assert figures["sent"] == figures["right"] + figures.get("error_event", 0) + figures.get("5xx", 0)
    assert figures["after"] == {"right": 8}


def test_requests_at_the_end_are_answered(measure: Callable[..., dict[str, Any]]) -> None:
    figures = measure("ending", "--clients", 8)
    assert figures["right"] == 8
    assert set(figures["requests_after"]) <= {"right", "5xx", "lost"}
    assert figures["requests_after"].get("lost", 0) <= 1  # a connection that the end of the proxy cuts
    assert figures["exit"] == 0
