"""A model, an own task and a number of steps are enough, and what is left out is what the documentation says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import heedful
from heedful.errors import TrainingError
from heedful.tasks.objective import ExampleObjective, Loss, LossPart
from heedful.training import (
    BestWeightsSaver,
    Callback,
    ConstantSchedule,
    DistributedContext,
    FullPrecision,
    StepMetrics,
    StoppingLimits,
    Trainer,
    TrainerConfig,
    TrainingHistory,
    TrainState,
    ValidationResult,
)

Batch = tuple[Tensor, Tensor]


class Signs(ExampleObjective[Batch, Batch]):
    """Whether the sum of three numbers is positive."""

    part_names = frozenset({"accuracy"})

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        numbers, signs = batch
        logits = model(numbers)
        total = nn.functional.cross_entropy(logits, signs, reduction="sum")
        right = (logits.argmax(-1) == signs).sum()
        return Loss(total, len(signs), {"accuracy": LossPart(right, len(signs))})


class PositiveSigns(Signs):
    """The accuracy of positive sums alone."""

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        whole = super().loss(model, batch)
        positive = tuple(part[batch[1] == 1] for part in batch)
        return Loss(whole.total, whole.count, super().loss(model, positive).parts)


def signs(count: int, seed: int) -> list[Batch]:
    numbers = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))
    return [(row, (row.sum() > 0).long()) for row in numbers]


@pytest.fixture
def task() -> Signs:
    return Signs(signs(300, 1), signs(60, 2))


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 2))


def test_a_model_a_task_and_a_number_of_steps(
    model: nn.Module, task: Signs, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = Trainer(model, task, steps=200)
    assert trainer.run() == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 10
    assert printed[0].startswith("step 20  training 0.")
    assert printed[-1].startswith("step 200  training 0.")
    assert trainer.progress.step == 200
    assert model.training
    assert task.evaluate(model)["accuracy"] > 0.9


def test_evaluation_is_the_mean_over_all_examples_whatever_the_batches(model: nn.Module) -> None:
    examples = signs(50, 3)
    found = [Signs(examples, examples, batch_size=size).evaluate(model) for size in (1, 7, 50)]
    numbers, wanted = torch.stack([each[0] for each in examples]), torch.stack([each[1] for each in examples])
    loss = float(nn.functional.cross_entropy(model(numbers), wanted).detach())
    accuracy = float((model(numbers).argmax(-1) == wanted).float().mean())
    for metrics in found:
        assert metrics == pytest.approx({"loss": loss, "accuracy": accuracy}, rel=1e-5)  # fp32, other batch shapes


def test_every_example_is_learned_from_once_an_epoch(task: Signs) -> None:
    first, second = ([row for rows in task.plan_epoch(epoch) for row in rows] for epoch in (0, 1))
    assert sorted(first) == sorted(second) == list(range(300))
    assert first != second
    assert max(map(len, task.plan_epoch(0))) <= task.batch_size


def test_examples_may_be_dictionaries_or_what_the_child_makes_a_batch_of() -> None:
    class Named(Signs):
        def loss(self, model: nn.Module, batch: Any) -> Loss:
            return super().loss(model, (batch["numbers"], batch["sign"]))

    examples = [{"numbers": numbers, "sign": int(sign)} for numbers, sign in signs(40, 1)]
    Trainer(nn.Linear(3, 2), Named(examples, examples), steps=2, callback=TrainingHistory()).run()  # type: ignore[arg-type]

    class Collated(Signs):
        def collate(self, examples: Any) -> Batch:
            return torch.stack([each[0] for each in examples]), torch.ones(len(examples), dtype=torch.long)

    ones = Collated(signs(40, 1), signs(40, 1))
    model = nn.Linear(3, 2)
    Trainer(model, ones, steps=100, schedule=ConstantSchedule(0.1), callback=TrainingHistory()).run()
    assert ones.evaluate(model)["accuracy"] == 1.0


def test_defaults_are_what_the_documentation_says(model: nn.Module, task: Signs) -> None:
    trainer = Trainer(model, task, steps=50)
    assert isinstance(trainer.precision, FullPrecision)
    assert trainer.distributed == DistributedContext(0, 1, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    assert trainer.limits == StoppingLimits(steps=50)
    assert trainer.config == TrainerConfig(evaluate_every=5)
    assert trainer.schedule.get_rate(5) == pytest.approx(1e-3)
    assert trainer.schedule.get_rate(20) == pytest.approx(5e-4)
    endless = Trainer(model, task, limits=StoppingLimits(epochs=1))
    assert endless.config == TrainerConfig()
    assert endless.schedule.get_rate(1000) == pytest.approx(1e-3)


def test_steps_and_limits_count_both(model: nn.Module, task: Signs) -> None:
    assert Trainer(model, task, steps=5, limits=StoppingLimits(epochs=3)).limits == StoppingLimits(steps=5, epochs=3)
    assert Trainer(model, task, steps=5, limits=StoppingLimits(steps=3)).limits == StoppingLimits(steps=3)


def test_what_is_frozen_stays(task: Signs) -> None:
    model = nn.Linear(3, 2)
    model.bias.requires_grad_(False)
    before, weight = model.bias.clone(), model.weight.clone()
    Trainer(model, task, steps=3, callback=TrainingHistory()).run()
    assert torch.equal(model.bias, before)
    assert not torch.equal(model.weight, weight)


def test_two_trainings_with_one_seed_are_the_same(task: Signs) -> None:
    def trained() -> Tensor:
        torch.manual_seed(5)
        model = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2))
        Trainer(model, task, steps=20, callback=TrainingHistory()).run()
        return next(model.parameters()).detach()

    assert torch.equal(trained(), trained())


def test_mistakes_are_told_at_once(model: nn.Module, task: Signs, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrainingError, match="training has no end; give steps="):
        Trainer(model, task)
    message = r'"f1"; give config=TrainerConfig\(monitor=...\) with one of accuracy, loss'
    with pytest.raises(TrainingError, match=message):
        Trainer(model, task, steps=1, config=TrainerConfig(monitor="f1"))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(TrainingError, match="torchrun has started 2 processes"):
        Trainer(model, task, steps=1)


def test_who_is_handed_over_replaces_a_default(model: nn.Module, task: Signs) -> None:
    class Rates(Callback):
        def __init__(self) -> None:
            self.rates: list[float] = []

        def on_step_end(self, update: StepMetrics) -> None:
            self.rates.append(update.rate)

        def on_evaluate(self, evaluation: ValidationResult) -> None: ...

    rates = Rates()
    Trainer(model, task, steps=3, schedule=ConstantSchedule(0.5), callback=rates, device="cpu").run()
    assert rates.rates == [0.5, 0.5, 0.5]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_is_used_where_there_is_one(model: nn.Module, task: Signs) -> None:
    Trainer(model, task, steps=3, callback=TrainingHistory()).run()
    assert next(model.parameters()).is_cuda
    Trainer(model, task, steps=3, callback=TrainingHistory(), device="cpu").run()
    assert not next(model.parameters()).is_cuda


def test_the_best_weights_are_kept_and_given_back(task: Signs) -> None:
    """A rate below nothing at the end spoils what was learned."""

    class Spoiling(ConstantSchedule):
        def get_rate(self, step: int, *, time_fraction: float = 0.0) -> float:
            return 1e-2 if step <= 100 else -1.0

    model, best = nn.Linear(3, 2), BestWeightsSaver()
    with pytest.raises(TrainingError, match="no weights were kept yet"):
        best.load_into(model)
    assert repr(best) == "BestWeightsSaver(nothing yet)"
    trainer = Trainer(
        model, task, steps=120, schedule=Spoiling(1e-2), checkpoint_saver=best, callback=TrainingHistory()
    )
    trainer.run()
    assert best.step == trainer.progress.best_step == 96
    spoiled = task.evaluate(model)["loss"]
    best.load_into(model)
    assert task.evaluate(model)["loss"] == pytest.approx(trainer.progress.best) != pytest.approx(spoiled)
    assert repr(best) == "BestWeightsSaver(of step 96)"


def evaluation(step: int, *, improved: bool, **metrics: float) -> ValidationResult:
    return ValidationResult(TrainState(step=step, seconds=step / 10), metrics, improved)


def update(step: int, nll: float, labels: int) -> StepMetrics:
    return StepMetrics(step, 0, nll, nll, 0.1, 1.0, labels, 0.1)


@pytest.fixture
def history() -> Callable[..., TrainingHistory]:
    def make(**given: Any) -> TrainingHistory:
        made = TrainingHistory(**given)
        made.on_evaluate(evaluation(0, improved=True, loss=2.0, f1=0.1))
        made.on_step_end(update(1, nll=3.0, labels=1))
        made.on_step_end(update(2, nll=1.0, labels=3))
        made.on_evaluate(evaluation(2, improved=False, loss=2.5, f1=0.25))
        return made

    return make


def test_a_history_weighs_updates_by_their_labels(history: Callable[..., TrainingHistory]) -> None:
    told: list[str] = []
    points = history(log=told.append).points
    assert [point.training_nll for point in points] == [None, 1.5]
    assert told == [
        "step 0  validation loss 2.000  f1 0.100 *",
        "step 2  training 1.500  validation loss 2.500  f1 0.250",
    ]


def test_a_history_is_a_table(history: Callable[..., TrainingHistory]) -> None:
    assert repr(history()).splitlines() == [
        "step  seconds  training  validation loss  validation f1",
        " 0 *      0.0                      2.000          0.100",
        "   2      0.2     1.500            2.500          0.250".replace("   2 ", " 2   ", 1),
    ]
    page = history()._repr_html_()
    assert page.count("<tr>") == 3
    assert "<td>2.500</td>" in page
    assert repr(TrainingHistory()) == "History of nothing yet"


def test_a_history_shows_names_as_text(history: Callable[..., TrainingHistory]) -> None:
    made = TrainingHistory()
    made.on_evaluate(evaluation(0, improved=True, **{"<b>": 1.0}))
    assert "&lt;b&gt;" in made._repr_html_()


def test_a_history_follows_a_run_with_a_recipe(small: Path) -> None:
    told: list[str] = []
    history = TrainingHistory(told.append, log_interval=1e9)
    heedful.train(heedful.load_recipe(small), listeners=[history], device="cpu")
    assert [point.step for point in history.points] == [4, 8, 12]
    assert [line.split("  ")[0] for line in told] == ["step 4", "step 8", "step 12"]


def test_a_history_speaks_between_evaluations_that_are_far_apart() -> None:
    told: list[str] = []
    patient, hasty = TrainingHistory(told.append), TrainingHistory(told.append, log_interval=0.0)
    for listener in (patient, hasty):
        listener.on_step_end(update(1, nll=3.0, labels=1))
        listener.on_step_end(update(2, nll=1.0, labels=1))
    assert told == ["step 2  training 2.000"]


def test_a_part_is_a_mean_over_what_it_counts(model: nn.Module) -> None:
    validation = signs(70, 2)
    found = PositiveSigns(signs(10, 1), validation).evaluate(model)["accuracy"]
    positive = [numbers for numbers, sign in validation if sign == 1]
    assert 0 < len(positive) < 70
    assert found == pytest.approx(float((model(torch.stack(positive)).argmax(-1) == 1).double().mean()))
