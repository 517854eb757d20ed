from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from heedful.cli.progress import TrainingProgress
from heedful.recipes.training import TrainingConfig
from heedful.training.listeners import Evaluation, Progress, Update


def update(step: int) -> Update:
    return Update(step, 0, 2.5, 2.0, 0.1, 1.0, 100, 0.5)


def evaluation(step: int, *, improved: bool) -> Evaluation:
    return Evaluation(Progress(step=step, seconds=90), {"loss": 1.5, "bleu": 20.25}, improved)


def follow(config: dict[str, Any], *, terminal: bool, steps: int = 6) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=120)
    with TrainingProgress(TrainingConfig.model_validate(config), console) as progress:
        for step in range(1, steps + 1):
            progress.updated(update(step))
            if step % 3 == 0:
                progress.evaluated(evaluation(step, improved=step == 3))
    return stream.getvalue()


@pytest.mark.parametrize("config", [{"steps": 6}, {"minutes": 3.0}, {"epochs": 2}])
def test_a_terminal_gets_a_bar_and_lines_that_stay(config: dict[str, Any]) -> None:
    """Also where nobody knows how many steps there will be."""
    shown = follow(config, terminal=True)
    assert "step 3  1.5 min  validation loss 1.500  bleu 20.250 *" in shown
    assert "step 6  1.5 min  validation loss 1.500  bleu 20.250" in shown
    assert "loss 2.500  200 tokens/s" in shown
    assert ("6/6" in shown) is ("steps" in config)


@pytest.mark.parametrize("config", [{"steps": 100}, {"minutes": 3.0}])
def test_elsewhere_there_are_plain_lines_now_and_then(
    config: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]

    def monotonic() -> float:
        clock[0] += 4
        return clock[0]

    monkeypatch.setattr("time.monotonic", monotonic)
    assert follow(config, terminal=False, steps=40) == "", "everything goes to standard error as it is"
    told = capsys.readouterr().err.splitlines()
    steps = [line for line in told if "tokens/s" in line]
    assert 3 < len(steps) < 20
    assert all("\x1b" not in line for line in told)
    assert sum("validation" in line for line in told) == 13
    if "steps" in config:
        assert all(line.startswith("step ") and "/100  loss 2.500  200 tokens/s" in line for line in steps)
        assert "min left" in steps[-1]
    else:
        assert "left" not in steps[-1]
