"""The table of a training: what each of its points says."""

from __future__ import annotations

import pytest

from heedful.training.callbacks import StepMetrics, TrainState, ValidationResult
from heedful.training.history import TrainingHistory


def update(step: int, *, nll: float, labels: int) -> StepMetrics:
    return StepMetrics(step, 0, nll, nll, rate=0.1, gradient_norm=1.0, labels=labels, seconds=0.1)


def evaluation(step: int) -> ValidationResult:
    return ValidationResult(TrainState(step=step), {"nll": 1.0}, improved=False)


def test_each_point_has_the_mean_of_what_was_learned_since_the_one_before() -> None:
    history = TrainingHistory()
    history.on_evaluate(evaluation(0))
    for step, nll, labels in ((1, 4.0, 1), (2, 2.0, 3)):
        history.on_step_end(update(step, nll=nll, labels=labels))
    history.on_evaluate(evaluation(2))
    history.on_step_end(update(3, nll=1.0, labels=2))
    history.on_evaluate(evaluation(3))
    history.on_evaluate(evaluation(3))
    assert [point.training_nll for point in history.points] == [None, pytest.approx(2.5), pytest.approx(1.0), None]
