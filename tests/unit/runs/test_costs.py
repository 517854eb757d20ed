from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.models.model_size import TrainingMemory
from heedful.recipes.training import TrainingConfig
from heedful.runs.trainer_factory import CostReporter, describe_memory, format_bytes, set_gradient_checkpointing
from heedful.training.callbacks import EpochPlan, StepMetrics, TrainState, ValidationResult
from heedful.training.distributed import DistributedContext

ALONE = DistributedContext(0, 1, torch.device("cpu"))
PLAN = EpochPlan(TrainState(), updates=50, done=0, batches=100, examples=5000, evaluate_every=100)


class Clock:
    """Updates that take as long as they are told to."""

    def __init__(self, config: dict[str, Any], plan: EpochPlan = PLAN) -> None:
        self.told: list[str] = []
        plain = {"batch_tokens": 1000, "evaluate_every": 100, "precision": "fp32"}
        made = TrainingConfig.model_validate(plain | config)
        self.costs = CostReporter(made, nn.Linear(1000, 1024), log=self.told.append, world=ALONE)
        self.step, self.seconds = plan.progress.step, plan.progress.seconds
        self.costs.on_epoch_begin(plan)

    def update(self, seconds: float, *, times: int = 1) -> list[str]:
        """What is told while so many updates are made."""
        before = len(self.told)
        for _ in range(times):
            self.step, self.seconds = self.step + 1, self.seconds + seconds
            self.costs.on_step_end(StepMetrics(self.step, 0, 2.0, 2.0, 0.1, 1.0, 30, seconds, elapsed=self.seconds))
        return [line.partition("; memory so far: ")[0] for line in self.told[before:]]


def test_size_and_updates_are_told_before_the_first_update() -> None:
    clock = Clock({"epochs": 3, "minutes": 90.0})
    assert clock.told == [
        "1,025,024 parameters; training needs 15.6 MiB for weights, gradients and the optimizer's moments, and very "
        "roughly 7.7 MiB for the activations of a batch",
        "50 updates an epoch, 150 in all (3.0 epochs); at most 1 h 30 min",
    ]
    clock.costs.on_epoch_begin(PLAN)
    assert len(clock.told) == 2, "once, and not in each epoch"


def test_weights_of_attention_are_estimated_for_examples_of_mean_length(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def estimate(model: nn.Module, *, length: int, **_: Any) -> TrainingMemory:
        lengths.append(length)
        return TrainingMemory(weights=0, gradients=0, moments=0, activations=None)

    monkeypatch.setattr("heedful.runs.trainer_factory.estimate_training_memory", estimate)
    Clock({"steps": 9})  # batches of 1,000 tokens
    assert lengths == [1000 * PLAN.batches // PLAN.examples] == [20]


def test_what_remembers_nothing_needs_no_moments() -> None:
    assert "training needs 7.8 MiB for" in Clock({"steps": 9, "optimizer": {"kind": "sgd"}}).told[0]
    assert "training needs 11.7 MiB for" in Clock({"steps": 9, "optimizer": {"kind": "sgd", "momentum": 0.9}}).told[0]
    assert "training needs 7.8 MiB for" in Clock({"steps": 9, "optimizer": {"kind": "adafactor"}}).told[0], "nearly"


def test_layers_that_are_computed_again_need_less_memory() -> None:
    config = TransformerConfig(d_model=32, heads=2, d_ff=64, layers=4)
    model = build_sequence_to_sequence(config, DataSizes(50, 50, 9))
    told: list[str] = []
    for checkpointing in (False, True):
        options = {"steps": 9, "batch_tokens": 1000, "precision": "fp32", "gradient_checkpointing": checkpointing}
        training = TrainingConfig.model_validate(options)
        set_gradient_checkpointing(model, training)
        CostReporter(training, model, log=told.append, world=ALONE).on_epoch_begin(PLAN)
    stored, again = (float(line.partition("roughly ")[2].split()[0]) for line in told if "roughly" in line)
    assert again < stored / 2


def test_the_time_is_told_after_ten_updates() -> None:
    clock = Clock({"steps": 10_000})
    assert clock.update(0.6, times=9) == []
    assert clock.update(0.6) == [
        "about 1 h 40 min for 9,990 updates, without validation; first validation after about 54 s"
    ]
    assert clock.update(0.6, times=50) == [], "once"
    assert "; memory so far: " in clock.told[2]


def test_the_time_is_told_after_ten_seconds() -> None:
    """Of two updates at least, the first of which is slow."""
    clock = Clock({"steps": 500, "patience": 3})
    assert clock.update(30.0) == []
    assert clock.update(4.0) == [
        "about 33 min for 498 updates, without validation; first validation after about 7 min; training.patience = 3 "
        "may end it earlier"
    ]


def test_hours_are_warned_of_with_what_shortens_them() -> None:
    clock = Clock({"steps": 10_000})
    _, warning = clock.update(1.0, times=10)
    assert warning.startswith("warning: this training is long; ")
    for key in ("minutes", "steps", "batch_tokens"):
        assert f"training.{key}" in warning
    assert "model.d_model" in warning


def test_minutes_that_were_asked_for_are_no_surprise() -> None:
    clock = Clock({"steps": 100_000, "minutes": 240.0})
    assert clock.update(1.0, times=10) == [
        "training.minutes = 240 ends it in 4 h, after about 14,390 of 99,990 updates; first validation after "
        "about 2 min"
    ]


def test_short_trainings_need_no_forecast() -> None:
    assert Clock({"steps": 100}).update(0.1, times=60) == []


def test_a_run_that_goes_on_tells_what_is_left() -> None:
    progress = TrainState(step=900, epoch=18, seconds=900.0)
    clock = Clock(
        {"steps": 1000}, EpochPlan(progress, updates=50, done=0, batches=100, examples=5000, evaluate_every=100)
    )
    assert clock.told[1] == "50 updates an epoch, 1,000 in all (20.0 epochs), 900 of them done"
    clock.costs.on_evaluate(ValidationResult(progress, {"loss": 1.0}, False, 10.0))
    assert clock.update(1.0, times=10) == ["about 2 min for 90 updates"], "with the evaluation at its end"


@pytest.mark.parametrize(("count", "told"), [(512, "0.5 KiB"), (2**21, "2.0 MiB"), (3 * 2**29, "1.5 GiB")])
def test_bytes_have_their_unit(count: int, told: str) -> None:
    assert format_bytes(count) == told


def test_what_cannot_be_told_is_said() -> None:
    assert describe_memory(TrainingMemory(2**20, 2**20, 2**21, None)).endswith("moments, without activations")
