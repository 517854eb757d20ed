"""What training knows of a problem: an order of examples, a loss that can be summed, numbers that can be compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor, nn

Batch = TypeVar("Batch")
Rows = Int[np.ndarray, " rows"]


@dataclass(frozen=True)
class Part:
    """A sum over labels of its own kind, detached, for reports."""

    total: Float[Tensor, ""]
    count: int


@dataclass(frozen=True)
class Loss:
    """A sum over `count` labels, never a mean, so that accumulated and distributed sums are those of the big batch.

    Attributes:
        total: what is minimised, summed, in nats.
        count: labels summed over.
        parts: what else is to be told, each with a count of its own; their names are among `Task.parts`.
    """

    total: Float[Tensor, ""]
    count: int
    parts: Mapping[str, Part] = field(default_factory=dict)


class Task(ABC, Generic[Batch]):
    """Data, loss and metrics of one problem."""

    metrics: frozenset[str]
    """The names `evaluate` returns, the same in every call."""
    parts: frozenset[str] = frozenset()
    """The names that parts of its losses have: a process without a share of a batch must know them as well."""

    @abstractmethod
    def plan(self, epoch: int) -> Sequence[Rows]:
        """The examples of each batch of an epoch: a pure function of the task's seed and the epoch."""

    def updates(self, epoch: int, *, accumulate: int) -> Sequence[Sequence[Rows]]:
        """The batches of each update of an epoch, in the order of `plan`: `accumulate` of them, as far as they last.

        A task whose losses cannot all be summed says here what belongs together.
        """
        plan = self.plan(epoch)
        return [plan[start : start + accumulate] for start in range(0, len(plan), accumulate)]

    def member(self, rows: Rows) -> str:
        """Which of several tasks these examples are of; they have no names where there is one."""
        return ""

    @abstractmethod
    def batch(self, rows: Rows) -> Batch:
        """These examples, ready for the model."""

    @abstractmethod
    def loss(self, model: Any, batch: Batch) -> Loss:
        """What training minimises."""

    @abstractmethod
    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Metrics on the validation set; the model is in evaluation mode and no gradient is recorded."""

    def learned(self, nll: float, *, member: str = "") -> None:
        """Told after each update the mean of its `nll`, the same in all processes; most tasks need not know.

        Args:
            nll: of the part of that name, or of the loss where there is none.
            member: of several tasks the one that the update was of.
        """
        return

    def tensors(self) -> Mapping[str, Tensor]:
        """What `learned` taught the task itself, to be kept with the model's moments; nothing in most tasks."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up what `tensors` gave."""
        return
