"""Training objective of several tasks: each update trains one of them, sampled with a temperature."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from torch import Tensor, nn

from heedful.data.random_numbers import SeededRandom
from heedful.models.heads import MultitaskModel
from heedful.tasks.objective import Loss, LossPart, RowIndices, TrainingObjective

_RANDOM_STREAM: Final = 0x7461736B
"""Separates the random numbers of the task order from others with the same seed."""


@dataclass(frozen=True)
class MultitaskMember:
    """One of the tasks.

    Attributes:
        objective: the task's own training objective.
        num_examples: number of training examples.
        weight: lambda, the factor of its loss; with 0 it is only measured.
        monitor: its metric in the mean over tasks; higher must be better.
    """

    objective: TrainingObjective[Any]
    num_examples: int
    weight: float
    monitor: str


@dataclass(frozen=True)
class MemberBatch:
    """A batch of one of the tasks."""

    name: str
    batch: Any


class MultitaskObjective(TrainingObjective[MemberBatch]):
    """Training objective sum_t lambda_t L_t, of which each update takes one term (Liu et al. 2019, MT-DNN, algorithm
    1).

    A task whose examples make n batches gets the share p = n^(1/T) / sum n^(1/T) of all batches (Arivazhagan et al.
    2019 for languages; Stickland and Murray 2019 for tasks). An epoch has as many batches as one pass through every
    task takes, in random order. Each task goes through its examples in passes, each with its own shuffle; an epoch
    continues where the last one stopped and takes p N / n passes of a task, N being the number of all batches. So
    shares are exact, no example is repeated before all have been used once, and with T = 1 an epoch is one pass through
    each task.

    Args:
        members: the tasks by name; at least one has a weight.
        temperature: T, at least 1.
        seed: seed of the order of tasks.
    """

    def __init__(self, members: Mapping[str, MultitaskMember], *, temperature: float, seed: int) -> None:
        self.members = dict(members)
        self.temperature = temperature
        self.seed = seed
        task_metrics = (
            f"{name}/{metric}" for name, member in members.items() for metric in member.objective.metric_names
        )
        self.metric_names = frozenset(("loss", "mean", *task_metrics))
        self.part_names = frozenset({"loss", "nll"}).union(
            *(member.objective.part_names for member in members.values())
        )
        self._names = tuple(members)
        self._starts = np.cumsum([0, *(member.num_examples for member in members.values())])

    @cached_property
    def shares(self) -> Mapping[str, float]:
        """Share p of each task in all batches; 0 for tasks without weight."""
        sizes = self._batch_counts
        total = math.fsum(size ** (1 / self.temperature) for size in sizes.values())
        return {name: sizes[name] ** (1 / self.temperature) / total if name in sizes else 0.0 for name in self._names}

    def plan_epoch(self, epoch: int) -> Sequence[RowIndices]:
        """Return the batches of all tasks, shuffled; an index is a row of a task plus the number of examples of the
        tasks before it.
        """
        return [rows for update in self.plan_updates(epoch, accumulate=1) for rows in update]

    def plan_updates(self, epoch: int, *, accumulate: int) -> Sequence[Sequence[RowIndices]]:
        """Return the batches of each update of an epoch: `accumulate` batches of one task, or those that are left of
        it.
        """
        updates_by_task, task_order = [], []
        for task_index, name in enumerate(self._batch_counts):
            batches = self._epoch_batches(name, epoch)
            updates_by_task.append(
                iter([batches[start : start + accumulate] for start in range(0, len(batches), accumulate)])
            )
            task_order += [task_index] * math.ceil(len(batches) / accumulate)
        shuffled = np.argsort(SeededRandom(self.seed, _RANDOM_STREAM, epoch).uniform(len(task_order)), kind="stable")
        return [next(updates_by_task[task_order[index]]) for index in shuffled]

    def member_name(self, rows: RowIndices) -> str:
        """Return the name of the task that the examples in `rows` belong to; all belong to one."""
        return self._names[self._find_task_index(rows)]

    def build_batch(self, rows: RowIndices) -> MemberBatch:
        """Build the batch of the examples in `rows`, all of one task."""
        name = self.member_name(rows)
        return MemberBatch(
            name, self.members[name].objective.build_batch(rows - self._starts[self._find_task_index(rows)])
        )

    def loss(self, model: MultitaskModel, batch: MemberBatch) -> Loss:
        """Compute lambda_t L_t of a batch, whose gradient the update divides by the labels of this task alone; loss
        parts have no lambda.
        """
        member = self.members[batch.name]
        member_loss = member.objective.loss(model.get_head(batch.name), batch.batch)
        unweighted = LossPart(member_loss.total.detach(), member_loss.count)
        return Loss(
            member_loss.total * member.weight,
            member_loss.count,
            {"nll": unweighted, **member_loss.parts, "loss": unweighted},
        )

    def on_update(self, nll: float, *, member: str = "") -> None:
        """Forward the update's mean `nll` to the objective of the task `member`."""
        self.members[member].objective.on_update(nll)

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the states of all tasks."""
        states = ((name, member.objective.state_dict()) for name, member in self.members.items())
        return {f"{name}.{key}": tensor for name, tensors in states for key, tensor in tensors.items()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the state of each task that `state_dict` returned, given as `tensors`."""
        for name, member in self.members.items():
            prefix = f"{name}."
            member_state = {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}
            if member_state:
                member.objective.load_state_dict(member_state)

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute all metrics of all tasks, the weighted loss, and the mean of the tasks' monitored metrics."""
        assert isinstance(model, MultitaskModel)
        metrics_by_task = {
            name: member.objective.evaluate(model.get_head(name)) for name, member in self.members.items()
        }
        loss = math.fsum(
            member.weight * metrics_by_task[name]["loss"] for name, member in self.members.items() if member.weight
        )
        monitored = [metrics_by_task[name][member.monitor] for name, member in self.members.items()]
        task_metrics = {
            f"{name}/{metric}": value for name, metrics in metrics_by_task.items() for metric, value in metrics.items()
        }
        return {"loss": loss, "mean": math.fsum(monitored) / len(monitored)} | task_metrics

    def _find_task_index(self, rows: RowIndices) -> int:
        return int(np.searchsorted(self._starts, rows[0], side="right")) - 1

    @cached_property
    def _batch_counts(self) -> Mapping[str, int]:
        """Batches per pass through each trained task."""
        return {name: len(member.objective.plan_epoch(0)) for name, member in self.members.items() if member.weight}

    @cached_property
    def _passes_per_epoch(self) -> Mapping[str, float]:
        """Passes through each task in an epoch; exactly 1 with T = 1."""
        sizes, exponent = self._batch_counts, 1 / self.temperature
        scale = sum(sizes.values()) / math.fsum(size**exponent for size in sizes.values())
        return {name: scale * size ** (exponent - 1) for name, size in sizes.items()}

    def _epoch_batches(self, name: str, epoch: int) -> list[RowIndices]:
        """Return the batches of the task `name` in an epoch, in the task's own order, with row indices that continue
        from task to task.
        """
        task, start = self.members[name].objective, self._starts[self._names.index(name)]
        first_pass, last_pass = (self._passes_per_epoch[name] * number for number in (epoch, epoch + 1))
        batches: list[RowIndices] = []
        for number in range(math.floor(first_pass), math.ceil(last_pass)):
            plan = task.plan_epoch(number)
            first, last = (round(len(plan) * min(max(x - number, 0.0), 1.0)) for x in (first_pass, last_pass))
            batches += [rows + start for rows in plan[first:last]]
        return batches
