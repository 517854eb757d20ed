"""Whether a trained model is useful, what would help, and what is said before training ends."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful.recipes.load import load_recipe
from heedful.runs import usefulness
from heedful.runs.train import train
from heedful.runs.usefulness import describe_short_training, find_weaknesses
from heedful.tasks.objective import measure_unigram_loss
from heedful.tasks.translation import validation
from heedful.training.callbacks import StepMetrics
from heedful.training.eta import TrainingForecast
from heedful.training.trainer import StoppingLimits


def test_the_unigram_loss_is_that_of_frequencies(monkeypatch: pytest.MonkeyPatch) -> None:
    train_ids, other = np.random.randint(0, 7, 500), np.random.randint(0, 9, 60)
    counts = Counter(train_ids.tolist())
    size = 1 + max(train_ids.max(), other.max())
    expected = np.mean([-math.log((counts[token] + 1) / (500 + size)) for token in other.tolist()])
    assert measure_unigram_loss(train_ids, other) == pytest.approx(expected)
    monkeypatch.setattr("heedful.tasks.objective._BLOCK_TOKENS", 7)
    assert measure_unigram_loss(train_ids, other) == pytest.approx(expected)


class Objective:
    """An objective whose labels have this loss by their frequencies."""

    def __init__(self, loss: float | None) -> None:
        self.loss = loss

    def compute_unigram_loss(self) -> float | None:
        return self.loss


class SilentTask:
    def training_warnings(self, run: Any, metrics: Any, *, model: Any) -> tuple[str, ...]:
        return ()


class AnyRun:
    task = SilentTask()


@pytest.mark.parametrize(("loss", "unigram", "useful"), [(2.0, 2.1, True), (2.1, 2.1, False), (9.0, None, True)])
def test_a_model_must_know_more_than_frequencies(loss: float, unigram: float | None, useful: bool) -> None:
    found = find_weaknesses(AnyRun(), Objective(unigram), {"loss": loss}, model=None)  # type: ignore[arg-type]
    assert bool(found) is not useful
    if found:
        assert found[0].startswith("a perplexity of 8 is not below 8, that of a model that only knows how frequent")


def test_poor_translations_are_a_weakness(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe(small, ["--training.steps", "2", "--training.average", "1"])
    poor = train(recipe, device="cpu")
    assert poor.weaknesses[0].startswith("translations of 20 validation sentences have BLEU ")
    more_time, *others = poor.remedies
    assert "of about 14,060 that such models need; at this speed try about" in more_time
    assert len(others) == 2
    monkeypatch.setattr(validation, "_POOR_CHRF", 0.0)
    assert not any("BLEU" in weakness for weakness in train(recipe, device="cpu").weaknesses), "as of single words"
    monkeypatch.undo()
    monkeypatch.setattr(validation, "_CLEAR_ACCURACY", 0.0)
    assert not any("BLEU" in weakness for weakness in train(recipe, device="cpu").weaknesses)


def forecast_at(labels_per_second: int) -> TrainingForecast:
    update = StepMetrics(
        step=1, epoch=0, loss=1.0, nll=1.0, labels=labels_per_second, examples=1, rate=0.1, gradient_norm=1.0,
        seconds=1.0, elapsed=60.0, parts={},
    )  # fmt: skip
    return TrainingForecast(StoppingLimits(minutes=5)).with_update(update)


def test_too_little_time_is_said_at_the_measured_speed() -> None:
    said = describe_short_training(forecast_at(1000), 2.5e6, seconds=240)
    assert said.startswith("until training ends, the model reads about 300,000 tokens, and models of this task are ")
    assert "from about 2,500,000 on: at this speed that takes" in said
    assert "training.minutes = 42)" in said
    assert describe_short_training(forecast_at(10_000), 2.5e6, seconds=240) == ""
    assert describe_short_training(forecast_at(1000), None, seconds=240) == ""
    assert usefulness._SHORT_SHARE == 0.5
