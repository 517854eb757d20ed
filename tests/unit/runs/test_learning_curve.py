from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heedful.recipes.training import TrainingConfig
from heedful.runs.metrics_log import (
    LearningCurve,
    TrainingPoint,
    ValidationPoint,
    describe_high_perplexity,
    read_curve,
)
from heedful.runs.trainer_factory import TrainingWarnings, build_trend
from heedful.training.callbacks import StepMetrics, TrainState, ValidationResult

GOLDEN = Path(__file__).parents[2] / "golden"


def write(path: Path, *lines: dict[str, Any] | str) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def test_a_curve_has_both_losses(tmp_path: Path) -> None:
    path = write(
        tmp_path / "metrics.jsonl",
        {"kind": "training", "step": 50, "loss": 4.0, "nll": 3.0, "rate": 0.1},
        {"kind": "validation", "step": 60, "seconds": 30.0, "loss": 2.5, "bleu": 1.0},
        {"kind": "training", "step": 100, "loss": 2.0},
        {"kind": "validation", "step": 120, "seconds": 60.0, "loss": 2.6},
    )
    curve = read_curve(path)
    assert curve.training == (TrainingPoint(50, 3.0), TrainingPoint(100, 2.0)), (
        "nll, as validation measures it, where it is told"
    )
    assert curve.validation == (ValidationPoint(60, 30.0, 2.5), ValidationPoint(120, 60.0, 2.6))
    assert (curve.best, curve.finished) == (ValidationPoint(60, 30.0, 2.5), False)


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """Half a line, losses that were infinite or no numbers, and what is no record at all."""
    path = write(
        tmp_path / "metrics.jsonl",
        {"kind": "validation", "step": 1, "loss": None},
        '{"kind": "training", "step": 50, "nll": NaN}',
        {"kind": "training", "step": 50, "nll": True},
        {"kind": "training", "nll": 1.0},
        "[]",
        "7",
        {"kind": "validation", "step": 2, "loss": 1.0},
        {"kind": "final", "step": 2},
        '{"kind": "training", "st',
    )
    assert read_curve(path) == LearningCurve((), (ValidationPoint(2, 0.0, 1.0),), finished=True)
    assert read_curve(tmp_path / "nowhere") == LearningCurve()


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/run/metrics.jsonl")), ids=lambda path: path.parts[-3])
def test_runs_of_older_versions_have_curves(path: Path) -> None:
    curve = read_curve(path)
    assert curve.finished
    assert curve.best in curve.validation


# --- remarks -----------------------------------------------------------------------------------------------


def remarks(past: LearningCurve, *, monitor: str = "loss") -> tuple[TrainingWarnings, list[str]]:
    said: list[str] = []
    config = TrainingConfig.model_validate({"steps": 1000})
    object.__setattr__(config, "monitor", monitor)
    return TrainingWarnings(config, past=past, log=said.append), said


def go_on(listener: TrainingWarnings, step: int, *, nll: float, loss: float, stale: int) -> None:
    listener.on_step_end(StepMetrics(step, 0, nll, nll, 0.1, 1.0, 10, 0.1))
    progress = TrainState(step=step, best=2.0, best_step=100, stale=stale)
    listener.on_evaluate(ValidationResult(progress, {"loss": loss}, stale == 0))


def test_each_is_said_once() -> None:
    listener, said = remarks(LearningCurve())
    for number, (nll, loss) in enumerate([(2.5, 2.0), (2.0, 2.2), (1.5, 2.4), (1.0, 2.6), (0.5, 2.8), (0.4, 2.9)]):
        go_on(listener, 100 * (number + 1), nll=nll, loss=loss, stale=number)
    assert [text.partition(":")[0] for text in said] == [
        "training and validation loss diverge (overfitting)",
        "validation has stopped improving",
    ]


@pytest.mark.parametrize("stale", [0, 1])
def test_losses_that_part_are_no_harm_where_what_is_monitored_still_gets_better(stale: int) -> None:
    listener, said = remarks(LearningCurve(), monitor="accuracy")
    for number, (nll, loss) in enumerate([(2.5, 2.0), (2.0, 2.2), (1.5, 2.4)]):
        go_on(listener, 100 * (number + 1), nll=nll, loss=loss, stale=stale)
    assert len(said) == 1
    assert ("; accuracy still improves" in said[0]) == (stale == 0)


def test_a_sitting_that_goes_on_knows_what_was_measured_before() -> None:
    learned = (TrainingPoint(50, 2.6), TrainingPoint(100, 2.4), TrainingPoint(150, 2.1), TrainingPoint(200, 1.9))
    past = LearningCurve(learned, (ValidationPoint(100, 1.0, 2.0), ValidationPoint(200, 2.0, 2.3)))
    trend = build_trend(past)
    assert trend.lowest is not None
    assert (trend.lowest.step, trend.lowest.training, trend.rising) == (100, pytest.approx(2.5), 1)
    listener, said = remarks(past)
    go_on(listener, 300, nll=1.5, loss=2.5, stale=2)
    assert len(said) == 1
    assert "since step 100 validation has risen from 2.000 to 2.500" in said[0]
    again, silent = remarks(
        LearningCurve((*learned, TrainingPoint(300, 1.5)), (*past.validation, ValidationPoint(300, 3.0, 2.5)))
    )
    go_on(again, 400, nll=1.0, loss=2.7, stale=4)
    assert silent == [], "it was said before"


@pytest.mark.parametrize(
    ("epoch", "perplexity", "told"),
    [
        (0, 812.4, "is high, 812, and the text was read once or less: "),
        (1, 100.0, "is high, 100, and the text was read once or less: "),
        (4, 5000.0, "is high, 5,000 after 4 passes over the text: "),
        (None, 200.0, "is high, 200: "),
        (1, 99.9, ""),
    ],
)
def test_a_high_perplexity_is_told(tmp_path: Path, epoch: int | None, perplexity: float, told: str) -> None:
    path = write(
        tmp_path / "metrics.jsonl",
        {"kind": "validation", "step": 10, "epoch": 0, "loss": 9.0, "perplexity": 9000.0},
        {"kind": "validation", "step": 20, "epoch": epoch, "loss": 1.0, "perplexity": perplexity},
    )
    assert (told in describe_high_perplexity(path)) is True
    assert bool(describe_high_perplexity(path)) is bool(told)
    write(path, *path.read_text().splitlines(), {"kind": "final", "step": 20, "perplexity": 3.0})
    assert describe_high_perplexity(path) == ""


def test_tasks_without_a_perplexity_have_no_high_one(tmp_path: Path) -> None:
    path = write(tmp_path / "metrics.jsonl", {"kind": "validation", "step": 10, "epoch": 0, "accuracy": 0.1})
    assert describe_high_perplexity(path) == ""
    assert describe_high_perplexity(tmp_path / "nowhere") == ""
