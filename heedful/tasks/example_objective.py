"""Base class for custom tasks: examples in memory, and a loss on a batch of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from heedful.data.bucketing import batch_randomly
from heedful.tasks.objective import Batch, LossPart, RowIndices, TrainingObjective
from heedful.tensors import move_to_device

Example_co = TypeVar("Example_co", covariant=True)


class ExampleSequence(Protocol[Example_co]):
    """A sequence of examples with a length and indexing: a list, a tensor, or a map-style dataset of PyTorch."""

    def __len__(self) -> int:
        """Return the number of examples."""
        ...

    def __getitem__(self, index: int, /) -> Example_co:
        """Return one example."""
        ...


class ExampleObjective(TrainingObjective[Batch], Generic[Example_co, Batch]):
    """A training objective on examples in memory; subclasses define the loss, and may define collation.

    `evaluate` returns the loss per label of the validation examples, and the mean of each loss part: a loss with a part
    `accuracy`, the number of right answers and of all answers, is measured by accuracy too.

    Abstract: `loss`.

    Args:
        train: training examples.
        validation: validation examples.
        batch_size: examples in a batch at most.
        seed: seed of their order.
    """

    def __init__(
        self,
        train: ExampleSequence[Example_co],
        validation: ExampleSequence[Example_co],
        *,
        batch_size: int = 32,
        seed: int = 1,
    ) -> None:
        self.train = train
        self.validation = validation
        self.batch_size = batch_size
        self.seed = seed
        self.device = torch.device("cpu")
        if not hasattr(type(self), "metric_names"):
            self.metric_names = frozenset({"loss", *self.part_names})

    def collate(self, examples: Sequence[Example_co]) -> Batch:
        """Collate examples into a batch on the CPU: tensors and numbers are stacked, also inside tuples and
        dictionaries.
        """
        batch: Any = default_collate(list(examples))
        if isinstance(batch, list):
            batch = tuple(batch)
        stacked: Batch = batch
        return stacked

    def plan_epoch(self, epoch: int) -> Sequence[RowIndices]:
        """Return all examples, shuffled, in batches of equal size."""
        return batch_randomly(len(self.train), max_rows=self.batch_size, seed=self.seed, epoch=epoch)

    @final
    def build_batch(self, rows: RowIndices) -> Batch:
        """Build the batch of these examples on the model's device."""
        return self._collate_on_device(self.train, rows)

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Return the loss per label and the mean of each loss part on the validation examples."""
        totals: dict[str, Tensor | float] = defaultdict(float)
        counts: dict[str, int] = defaultdict(int)
        rows = np.arange(len(self.validation))
        for start in range(0, len(rows), self.batch_size):
            loss = self.loss(model, self._collate_on_device(self.validation, rows[start : start + self.batch_size]))
            for name, part in {**loss.parts, "loss": LossPart(loss.total, loss.count)}.items():
                totals[name] += part.total.detach().double()
                counts[name] += part.count
        return {name: float(totals[name]) / max(1, counts[name]) for name in sorted({"loss", *self.part_names})}

    @final
    def choose_device(self, model_device: torch.device, requested: torch.device | None) -> torch.device:
        """Return the requested device, else a GPU if there is one."""
        self.device = requested or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return self.device

    def _collate_on_device(self, examples: ExampleSequence[Example_co], rows: RowIndices) -> Batch:
        return move_to_device(self.collate([examples[int(row)] for row in rows]), self.device)
