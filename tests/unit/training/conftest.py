"""A problem small enough to know everything about: examples with different numbers of labels, in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heedful.tasks.objective import Loss, LossPart, TrainingObjective
from heedful.training.callbacks import Callback, CheckpointSaver, StepMetrics, TrainingSnapshot, ValidationResult
from heedful.training.distributed import DistributedContext
from heedful.training.optimizers import (
    Adam,
    ConstantSchedule,
    LearningRateSchedule,
    MovingAverage,
    Optimizer,
)
from heedful.training.precision import BF16WithMasters, FullPrecision
from heedful.training.trainer import StoppingLimits, Trainer, TrainerConfig

EXAMPLES = 12


class Toy(TrainingObjective[np.ndarray]):
    """Classes from vectors; example i has 1 + i % 5 labels, which all count."""

    metric_names = frozenset({"loss", "score"})
    part_names = frozenset({"nll"})

    def __init__(
        self, *, size: int = 2, metric: Callable[[nn.Module], float] | None = None, dtype: torch.dtype = torch.float64
    ) -> None:
        generator = torch.Generator().manual_seed(7)
        self.inputs = torch.randn(EXAMPLES, 5, 3, generator=generator, dtype=torch.float64).to(dtype)
        self.labels = torch.randint(4, (EXAMPLES, 5), generator=generator)
        self.size = size
        self.metric = metric
        self.calls = 0
        self.before_loss: Callable[[int], None] = lambda _: None
        self.spoil: Callable[[int], float] = lambda _: 1.0
        self.seen: list[list[int]] = []

    def plan_epoch(self, epoch: int) -> Sequence[np.ndarray]:
        order = np.random.default_rng(epoch).permutation(EXAMPLES)
        return [order[start : start + self.size] for start in range(0, EXAMPLES, self.size)]

    def build_batch(self, rows: np.ndarray) -> np.ndarray:
        return rows

    def loss(self, model: nn.Module, batch: np.ndarray) -> Loss:
        self.calls += 1
        self.before_loss(self.calls)
        self.seen.append(batch.tolist())
        parts = []
        for row in batch:
            length = 1 + int(row) % 5
            logits = model(self.inputs[row, :length])
            parts.append(nn.functional.cross_entropy(logits, self.labels[row, :length], reduction="sum"))
        total = torch.stack(parts).sum()
        count = sum(1 + int(row) % 5 for row in batch)
        return Loss(total * self.spoil(self.calls), count, {"nll": LossPart(total.detach() / 2, count)})

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        assert not model.training
        score = 0.0 if self.metric is None else self.metric(model)
        with torch.no_grad():
            loss = self.loss(model, np.arange(EXAMPLES))
        self.calls -= 1
        self.seen.pop()
        return {"loss": float(loss.total) / loss.count, "score": score}


class Parted(Toy):
    """Beside the likelihood there is a question for every third example, and one that nobody ever asks."""

    part_names = frozenset({"nll", "third", "never"})

    def loss(self, model: nn.Module, batch: np.ndarray) -> Loss:
        plain = super().loss(model, batch)
        third = [int(row) for row in batch if row % 3 == 0]
        asked = {"third": LossPart(torch.tensor(float(sum(third))), len(third))} if third else {}
        return Loss(plain.total, plain.count, {**plain.parts, **asked})

    def member_name(self, rows: np.ndarray) -> str:
        return "odd" if len(rows) % 2 else ""


class Remembering(Toy):
    """A problem whose loss depends on what earlier updates taught the task itself."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.told: list[float] = []
        self.past = 0.0

    def loss(self, model: nn.Module, batch: np.ndarray) -> Loss:
        plain = super().loss(model, batch)
        return Loss(plain.total * (1 + math.sin(self.past)), plain.count, plain.parts)

    def on_update(self, nll: float, *, member: str = "") -> None:
        self.told.append(nll)
        self.past = 0.6 * self.past + nll

    def state_dict(self) -> Mapping[str, Tensor]:
        return {"past": torch.tensor(self.past, dtype=torch.float64)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        self.past = float(tensors["past"])


@dataclass
class Diary(Callback, CheckpointSaver):
    """Remembers what it was told, and saves by copying."""

    updates: list[StepMetrics] = field(default_factory=list)
    evaluations: list[ValidationResult] = field(default_factory=list)
    saved: list[tuple[TrainingSnapshot, ValidationResult | None]] = field(default_factory=list)

    def on_step_end(self, update: StepMetrics) -> None:
        self.updates.append(update)

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        self.evaluations.append(evaluation)

    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None:
        copies = ({n: t.clone() for n, t in tensors.items()} for tensors in (snapshot.weights, snapshot.training))
        self.saved.append((TrainingSnapshot(*copies, snapshot.progress), evaluation))


@dataclass
class Bench:
    """A trainer with everything around it."""

    model: nn.Module
    task: Toy
    diary: Diary
    trainer: Trainer[Any]

    @property
    def weights(self) -> dict[str, Tensor]:
        return {name: p.detach().clone() for name, p in self.model.named_parameters()}


@pytest.fixture
def toy() -> type[Toy]:
    return Toy


@pytest.fixture
def parted() -> type[Parted]:
    return Parted


@pytest.fixture
def remembering() -> type[Remembering]:
    return Remembering


@pytest.fixture
def bench() -> Callable[..., Bench]:
    """Makes a trainer of the same random model each time."""

    def make(
        task: Toy | None = None,
        *,
        limits: StoppingLimits | None = None,
        habits: TrainerConfig | None = None,
        schedule: LearningRateSchedule | None = None,
        ema: float | None = None,
        dropout: float = 0.0,
        half: bool = False,
        world: DistributedContext | None = None,
        optimizer: Callable[[Mapping[str, Tensor]], Optimizer] | None = None,
    ) -> Bench:
        dtype = torch.float32 if half else torch.float64
        task = task or Toy(dtype=torch.bfloat16 if half else torch.float64)
        torch.manual_seed(11)
        layers = (nn.Linear(3, 8, dtype=dtype), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 4, dtype=dtype))
        model = nn.Sequential(*layers)
        precision = BF16WithMasters(model) if half else FullPrecision(model)
        diary = Diary()
        trainer = Trainer(
            model,
            task,
            optimizer=(optimizer or partial(Adam, weight_decay=0.01))(precision.masters),
            precision=precision,
            schedule=schedule or ConstantSchedule(0.01),
            distributed=world or DistributedContext(0, 1, torch.device("cpu")),
            limits=limits or StoppingLimits(steps=10),
            config=habits or TrainerConfig(evaluate_every=4),
            callback=diary,
            checkpoint_saver=diary,
            average=MovingAverage(precision.masters, ema) if ema is not None else None,
        )
        return Bench(model, task, diary, trainer)

    return make
