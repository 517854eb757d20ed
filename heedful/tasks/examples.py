"""The shortest way to a task of one's own: examples in memory, and what is lost on some of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from heedful.data.bucketing import plan_at_random
from heedful.tasks.task import Batch, Part, Rows, Task
from heedful.values import move

Example_co = TypeVar("Example_co", covariant=True)


class Examples(Protocol[Example_co]):
    """What has a length and gives examples by number: a list, a tensor, or a dataset of torch's."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def __getitem__(self, number: int, /) -> Example_co:
        """One of them."""
        ...


class ExampleTask(Task[Batch], Generic[Example_co, Batch]):
    """A task whose examples are in memory; a child says what is lost on a batch, and how examples become one.

    `evaluate` gives the loss for each label of the validation examples, and the mean of each part of it: a loss with
    a part `accuracy`, the right answers among so many, is measured by accuracy too.

    Abstract: `loss`.

    Args:
        train: what is learned from.
        validation: what is measured on.
        batch_size: examples in a batch, at most.
        seed: of their order.
    """

    def __init__(
        self, train: Examples[Example_co], validation: Examples[Example_co], *, batch_size: int = 32, seed: int = 1
    ) -> None:
        self.train = train
        self.validation = validation
        self.batch_size = batch_size
        self.seed = seed
        self.device = torch.device("cpu")
        if not hasattr(type(self), "metrics"):
            self.metrics = frozenset({"loss", *self.parts})

    def collate(self, examples: Sequence[Example_co]) -> Batch:
        """The examples of a batch, on the CPU: tensors and numbers are stacked, tuples and dictionaries of them too."""
        batch: Any = default_collate(list(examples))
        if isinstance(batch, list):
            batch = tuple(batch)
        stacked: Batch = batch
        return stacked

    def plan(self, epoch: int) -> Sequence[Rows]:
        """All examples, shuffled, in batches of equal size."""
        return plan_at_random(len(self.train), rows=self.batch_size, seed=self.seed, epoch=epoch)

    @final
    def batch(self, rows: Rows) -> Batch:
        """These examples, where the model is."""
        return self._collated(self.train, rows)

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """The loss for each label, and the mean of each of its parts."""
        totals: dict[str, Tensor | float] = defaultdict(float)
        counts: dict[str, int] = defaultdict(int)
        rows = np.arange(len(self.validation))
        for start in range(0, len(rows), self.batch_size):
            loss = self.loss(model, self._collated(self.validation, rows[start : start + self.batch_size]))
            for name, part in {**loss.parts, "loss": Part(loss.total, loss.count)}.items():
                totals[name] += part.total.detach().double()
                counts[name] += part.count
        return {name: float(totals[name]) / max(1, counts[name]) for name in sorted({"loss", *self.parts})}

    @final
    def settle(self, model: torch.device, given: torch.device | None) -> torch.device:
        """What was asked for, else a GPU where there is one."""
        self.device = given or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return self.device

    def _collated(self, examples: Examples[Example_co], rows: Rows) -> Batch:
        return move(self.collate([examples[int(row)] for row in rows]), self.device)
