from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from heedful.cli.progress import CountingProgress, TrainingProgress
from heedful.tasks.objective import UnitNames
from heedful.training.callbacks import EpochPlan, StepMetrics, TrainState, ValidationResult
from heedful.training.eta import TrainingForecast
from heedful.training.trainer import StoppingLimits

SENTENCES = UnitNames(examples="sentences")


def update(step: int) -> StepMetrics:
    return StepMetrics(step, 0, 2.5, 2.0, 0.1, 1.0, 100, 0.5, examples=20, elapsed=60.0 * step)


def evaluation(step: int, *, improved: bool) -> ValidationResult:
    return ValidationResult(TrainState(step=step, seconds=90), {"loss": 1.5, "bleu": 20.25}, improved)


def follow(limits: dict[str, Any], *, terminal: bool, steps: int = 6, counted: UnitNames = SENTENCES) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=160)
    with TrainingProgress(TrainingForecast(StoppingLimits(**limits)), console, counted) as progress:
        progress.on_epoch_begin(EpochPlan(TrainState(), updates=3, done=0, batches=3, examples=60, evaluate_every=3))
        for step in range(1, steps + 1):
            progress.on_step_end(update(step))
            if step % 3 == 0:
                progress.on_evaluate(evaluation(step, improved=step == 3))
    return stream.getvalue()


@pytest.mark.parametrize("limits", [{"steps": 6}, {"minutes": 30.0}, {"epochs": 2}])
def test_a_terminal_gets_a_bar_and_lines_that_stay(limits: dict[str, Any]) -> None:
    """Also where nobody knows how many steps there will be."""
    shown = follow(limits, terminal=True)
    assert "step 3  1.5 min  validation loss 1.500  bleu 20.250 *" in shown
    assert "step 6  1.5 min  validation loss 1.500  bleu 20.250" in shown
    assert "loss 2.500  200 tokens/s  40 sentences/s" in shown
    assert ("6/6" in shown) is ("minutes" not in limits), "the bar knows the updates of two epochs"
    assert ("24 min left" in shown) is ("minutes" in limits)


@pytest.mark.parametrize("limits", [{"steps": 100}, {"minutes": 300.0}, {"steps": 100, "patience": 2}])
def test_elsewhere_there_are_plain_lines_now_and_then(
    limits: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]

    def monotonic() -> float:
        clock[0] += 4
        return clock[0]

    monkeypatch.setattr("time.monotonic", monotonic)
    assert follow(limits, terminal=False, steps=40) == "", "everything goes to standard error as it is"
    told = capsys.readouterr().err.splitlines()
    steps = [line for line in told if "tokens/s" in line]
    assert 3 < len(steps) < 20
    assert all("\x1b" not in line for line in told)
    assert sum("validation" in line for line in told) == 13
    assert all(line.startswith("step ") and "loss 2.500  200 tokens/s  40 sentences/s" in line for line in steps)
    assert all(("/100  loss" in line) is ("steps" in limits) for line in steps)
    if limits.keys() == {"minutes"}:
        assert steps[-1].endswith(" h 20 min left"), steps[-1]
    else:
        assert all((line.endswith(" left (patience 0/2)")) is ("patience" in limits) for line in steps)


def test_pictures_are_not_called_tokens(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.cli.progress._SECONDS_PER_LINE", 0.0)
    follow({"steps": 9}, terminal=False, counted=UnitNames(examples="pictures", labels="pictures"))
    told = capsys.readouterr().err
    assert "loss 2.500  40 pictures/s  " in told
    assert "tokens" not in told


def test_counts_come_with_their_speed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.cli.progress._SECONDS_PER_LINE", 0.0)
    seconds = iter([0.0, 0.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0])
    monkeypatch.setattr("heedful.cli.progress.time", SimpleNamespace(monotonic=lambda: next(seconds)))
    with CountingProgress("pairs") as on_progress:
        on_progress(5000, None)
        on_progress(8, 9)
    assert capsys.readouterr().err == "pairs: 5,000, 2,500 a second\npairs: 8 of 9, 2.0 a second\n"
