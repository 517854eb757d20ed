"""Several tasks as one: each update learns from one of them, and a temperature says how often it is which."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from torch import Tensor, nn

from heedful.data.chance import Chance
from heedful.models.multitask import MultitaskModel
from heedful.tasks.task import Loss, Part, Rows, Task

_STREAM: Final = 0x7461736B
"""Keeps these numbers apart from others that a seed decides."""


@dataclass(frozen=True)
class Member:
    """One of the tasks.

    Attributes:
        task: data, loss and metrics, as if it were learned alone.
        examples: how many it has to learn from.
        weight: lambda, what its loss is multiplied by; with 0 it is only measured.
        monitor: that of its metrics which enters the mean over tasks; more must be better.
    """

    task: Task[Any]
    examples: int
    weight: float
    monitor: str


@dataclass(frozen=True)
class MemberBatch:
    """A batch of one of the tasks."""

    name: str
    batch: Any


class Multitask(Task[MemberBatch]):
    """Minimising sum_t lambda_t L_t, of which each update takes one term (Liu et al. 2019, MT-DNN, algorithm 1).

    A task whose examples make n batches gets the share p = n^(1/T) / sum n^(1/T) of all batches (Arivazhagan et al.
    2019 of languages; Stickland and Murray 2019 of tasks). An epoch has as many batches as one pass through every task
    takes, and their order is random. Each task goes through its examples in passes, each a shuffle of its own; an epoch
    goes on where the last one stopped and takes p N / n passes of a task, N being all batches. So shares are exact, no
    example comes a second time before all have come once, and with T = 1 an epoch is one pass through each task.

    Args:
        members: the tasks by their names; at least one has a weight.
        temperature: T, at least 1.
        seed: of the order of tasks.
    """

    def __init__(self, members: Mapping[str, Member], *, temperature: float, seed: int) -> None:
        self.members = dict(members)
        self.temperature = temperature
        self.seed = seed
        own = (f"{name}/{metric}" for name, member in members.items() for metric in member.task.metrics)
        self.metrics = frozenset(("loss", "mean", *own))
        self.parts = frozenset({"loss", "nll"}).union(*(member.task.parts for member in members.values()))
        self._names = tuple(members)
        self._starts = np.cumsum([0, *(member.examples for member in members.values())])

    @cached_property
    def shares(self) -> Mapping[str, float]:
        """p of each task: its part of all batches; of tasks without weight 0."""
        sizes = self._sizes
        total = math.fsum(size ** (1 / self.temperature) for size in sizes.values())
        return {name: sizes[name] ** (1 / self.temperature) / total if name in sizes else 0.0 for name in self._names}

    def plan(self, epoch: int) -> Sequence[Rows]:
        """The batches of all tasks; rows count on from task to task."""
        return [rows for update in self.updates(epoch, accumulate=1) for rows in update]

    def updates(self, epoch: int, *, accumulate: int) -> Sequence[Sequence[Rows]]:
        """Each of one task: `accumulate` of its batches, or what is left of those that the epoch has of it."""
        waiting, order = [], []
        for number, name in enumerate(self._sizes):
            batches = self._batches(name, epoch)
            waiting.append(iter([batches[at : at + accumulate] for at in range(0, len(batches), accumulate)]))
            order += [number] * math.ceil(len(batches) / accumulate)
        shuffled = np.argsort(Chance(self.seed, _STREAM, epoch).uniform(len(order)), kind="stable")
        return [next(waiting[order[place]]) for place in shuffled]

    def member(self, rows: Rows) -> str:
        """The one task that these examples belong to."""
        return self._names[self._number(rows)]

    def batch(self, rows: Rows) -> MemberBatch:
        """These examples of the one task that they belong to."""
        name = self.member(rows)
        return MemberBatch(name, self.members[name].task.batch(rows - self._starts[self._number(rows)]))

    def loss(self, model: MultitaskModel, batch: MemberBatch) -> Loss:
        """lambda_t L_t, whose gradient the update divides by the labels of this task alone; parts have no lambda."""
        member = self.members[batch.name]
        own = member.task.loss(model.head(batch.name), batch.batch)
        plain = Part(own.total.detach(), own.count)
        return Loss(own.total * member.weight, own.count, {"nll": plain, **own.parts, "loss": plain})

    def learned(self, nll: float, *, member: str = "") -> None:
        """Passed on to the task that it is of."""
        self.members[member].task.learned(nll)

    def tensors(self) -> Mapping[str, Tensor]:
        """Those of all tasks."""
        every = ((name, member.task.tensors()) for name, member in self.members.items())
        return {f"{name}.{own}": tensor for name, tensors in every for own, tensor in tensors.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """To each task its own."""
        for name, member in self.members.items():
            prefix = f"{name}."
            own = {each.removeprefix(prefix): t for each, t in tensors.items() if each.startswith(prefix)}
            if own:
                member.task.restore(own)

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """All metrics of all tasks, the objective as `loss`, and the mean of what the tasks monitor."""
        assert isinstance(model, MultitaskModel)
        found = {name: member.task.evaluate(model.head(name)) for name, member in self.members.items()}
        loss = math.fsum(member.weight * found[name]["loss"] for name, member in self.members.items() if member.weight)
        monitored = [found[name][member.monitor] for name, member in self.members.items()]
        own = {f"{name}/{metric}": value for name, metrics in found.items() for metric, value in metrics.items()}
        return {"loss": loss, "mean": math.fsum(monitored) / len(monitored)} | own

    def _number(self, rows: Rows) -> int:
        return int(np.searchsorted(self._starts, rows[0], side="right")) - 1

    @cached_property
    def _sizes(self) -> Mapping[str, int]:
        """Batches in a pass through each task that is learned from."""
        return {name: len(member.task.plan(0)) for name, member in self.members.items() if member.weight}

    @cached_property
    def _passes(self) -> Mapping[str, float]:
        """Passes through each task in an epoch; exactly 1 with T = 1."""
        sizes, power = self._sizes, 1 / self.temperature
        scale = sum(sizes.values()) / math.fsum(size**power for size in sizes.values())
        return {name: scale * size ** (power - 1) for name, size in sizes.items()}

    def _batches(self, name: str, epoch: int) -> list[Rows]:
        """What an epoch takes of a task, in the task's own order."""
        task, start = self.members[name].task, self._starts[self._names.index(name)]
        begin, end = (self._passes[name] * number for number in (epoch, epoch + 1))
        found: list[Rows] = []
        for number in range(math.floor(begin), math.ceil(end)):
            plan = task.plan(number)
            first, last = (round(len(plan) * min(max(x - number, 0.0), 1.0)) for x in (begin, end))
            found += [rows + start for rows in plan[first:last]]
        return found
