"""Two passes with different dropout, whose predictions are drawn together (Liang et al. 2021)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heedful.errors import TrainingError
from heedful.models import predictions
from heedful.models.predictions import SoftmaxPredictions, cross_entropy
from heedful.tasks.objective import ExampleObjective, Loss, LossPart, combine_passes
from heedful.training.history import TrainingHistory
from heedful.training.optimizers import ConstantSchedule
from heedful.training.trainer import Trainer, TrainerConfig


class Network(nn.Module):
    """A hidden layer with dropout below the output."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(dropout))
        self.output = nn.Linear(16, 5)


class Labels(ExampleObjective[tuple[Tensor, Tensor], Any]):
    """Classes of vectors; the loss has the distributions, in two tensors as from a cut text."""

    part_names = frozenset({"nll"})
    has_predictions = True

    def loss(self, model: Any, batch: Any) -> Loss:
        inputs, labels = batch
        hidden = model.hidden(inputs)
        smoothed, nll = cross_entropy(hidden, labels, output=model.output)
        return Loss(
            smoothed, len(labels), {"nll": LossPart(nll, len(labels))}, SoftmaxPredictions(hidden, model.output)
        )


class Bare(Labels):
    has_predictions = False


def problem(kind: type[Labels] = Labels, *, count: int = 40) -> Labels:
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(2 * count, 4, generator=generator)
    labels = (inputs @ torch.randn(4, 5, generator=generator)).argmax(1)
    examples = list(zip(inputs, labels, strict=True))
    return kind(examples[:count], examples[count:], batch_size=count)


def train(dropout: float, alpha: float, *, steps: int = 6, **given: Any) -> tuple[dict[str, Tensor], TrainingHistory]:
    torch.manual_seed(1)
    model = Network(dropout)
    history = TrainingHistory()
    config = TrainerConfig(evaluate_every=steps, r_drop=alpha)
    given = {"schedule": ConstantSchedule(0.03), "callback": history, "device": "cpu", "config": config} | given
    Trainer(model, problem(), steps=steps, **given).run()
    return {name: parameter.detach() for name, parameter in model.named_parameters()}, history


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_and_its_gradient_are_those_of_the_paper(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of equation 4, written out with probabilities, chunk by chunk or not."""
    monkeypatch.setattr(predictions, "_CPU_CHUNK_ROWS", 4)
    torch.manual_seed(0)
    output, labels = nn.Linear(6, 9).double(), torch.randint(9, (11,))
    first, second = (torch.randn(11, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    weights = torch.rand(11, dtype=torch.float64) if weighted else None
    leaves = [first, second, output.weight, output.bias]

    def one_pass(hidden: Tensor) -> Loss:
        total, nll = cross_entropy(hidden, labels, output=output, weights=weights)
        return Loss(total, 11, {"nll": LossPart(nll, 11)}, SoftmaxPredictions(hidden, output, weights))

    found = combine_passes(one_pass(first), one_pass(second), alpha=3.0)
    gradients = torch.autograd.grad(found.total, leaves)
    expected, divergence = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for row, label in enumerate(labels.tolist()):
        weight = 1.0 if weights is None else float(weights[row])
        p, q = (output(hidden[row]).softmax(-1) for hidden in (first, second))
        forward, backward = (p * (p / q).log()).sum(), (q * (q / p).log()).sum()
        paper = -p[label].log() - q[label].log() + 3.0 * (forward + backward) / 2
        expected = expected + weight * paper / 2
        divergence = divergence + weight * (forward + backward).detach() / 2
    torch.testing.assert_close(found.total, expected)
    torch.testing.assert_close(found.parts["r_drop"].total, divergence)
    for mine, other in zip(gradients, torch.autograd.grad(expected, leaves), strict=True):
        torch.testing.assert_close(mine, other)


def test_without_dropout_both_passes_are_one() -> None:
    torch.manual_seed(1)
    model, task = Network(0.0), problem()
    batch = task.build_batch(np.arange(40))
    plain = task.loss(model, batch)
    (expected,) = torch.autograd.grad(plain.total, [model.hidden[0].weight])
    both = combine_passes(task.loss(model, batch), task.loss(model, batch), alpha=5.0)
    assert torch.equal(both.total, task.loss(model, batch).total)
    assert float(both.parts["r_drop"].total) == 0.0
    torch.testing.assert_close(torch.autograd.grad(both.total, [model.hidden[0].weight])[0], expected)
    weights, other = train(0.0, 5.0)[0], train(0.0, 0.0)[0]
    for name, weight in weights.items():
        torch.testing.assert_close(weight, other[name], rtol=1e-5, atol=1e-6)


def test_passes_drop_different_entries_and_are_drawn_together(unchecked: None) -> None:
    """What is learned with R-Drop differs less between two passes, and is right as often."""
    distances: dict[float, float] = {}
    for alpha in (1e-6, 5.0):
        torch.manual_seed(1)
        model, task = Network(0.4), problem(count=200)
        trainer = Trainer(
            model,
            task,
            steps=100,
            schedule=ConstantSchedule(0.05),
            callback=TrainingHistory(),
            config=TrainerConfig(evaluate_every=100, r_drop=alpha),
            device="cpu",
        )
        trainer.run()
        batch = task.build_batch(np.arange(200))
        with torch.no_grad():
            model.train()
            divergence = combine_passes(task.loss(model, batch), task.loss(model, batch), alpha=1.0).parts["r_drop"]
            model.eval()
            right = float((model.output(model.hidden(batch[0])).argmax(1) == batch[1]).float().mean())
        distances[alpha] = float(divergence.total) / divergence.count
        assert right > 0.85
    assert 0 < distances[5.0] < distances[1e-6] / 2


def test_the_divergence_is_reported() -> None:
    seen: list[Any] = []

    class Diary(TrainingHistory):
        def on_step_end(self, update: Any) -> None:
            seen.append(update)

    train(0.4, 2.0, callback=Diary(), steps=2)
    assert [update.parts.keys() for update in seen] == [{"nll", "r_drop"}] * 2
    for update in seen:
        assert update.loss == pytest.approx(update.nll + 2.0 / 2 * update.parts["r_drop"].mean)
        assert update.parts["r_drop"].mean > 0
        assert update.labels == 40


def test_a_loss_without_predictions_is_refused() -> None:
    with pytest.raises(TrainingError, match=r"config: r_drop = 2 compares predicted distributions"):
        Trainer(Network(0.1), problem(Bare), steps=1, config=TrainerConfig(r_drop=2.0))
