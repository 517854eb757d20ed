"""What training knows of a problem: an order of examples, a loss that can be summed, numbers that can be compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.data.bucketing import batch_by_size
from heedful.data.corpus import Corpus
from heedful.data.mixing import CorpusMixture, sum_tokens_by_text
from heedful.tensors import move_to_device

Batch = TypeVar("Batch")
RowIndices = Int[np.ndarray, " rows"]


@dataclass(frozen=True)
class LossPart:
    """A sum over labels of its own kind, detached, for reports."""

    total: Float[Tensor, ""]
    count: int


@dataclass(frozen=True)
class Loss:
    """A sum over `count` labels, never a mean, so that accumulated and distributed sums are those of the big batch.

    Attributes:
        total: what is minimised, summed, in nats.
        count: labels summed over.
        parts: what else is to be told, each with a count of its own; their names are among `TrainingObjective.part_names`.
    """

    total: Float[Tensor, ""]
    count: int
    parts: Mapping[str, LossPart] = field(default_factory=dict)


class TrainingObjective(ABC, Generic[Batch]):
    """Data, loss and metrics of one problem."""

    metric_names: frozenset[str]
    """The names `evaluate` returns, the same in every call."""
    part_names: frozenset[str] = frozenset()
    """The names that parts of its losses have: a process without a share of a batch must know them as well."""

    @abstractmethod
    def plan_epoch(self, epoch: int) -> Sequence[RowIndices]:
        """The examples of each batch of an epoch: a pure function of the task's seed and the epoch."""

    def plan_updates(self, epoch: int, *, accumulate: int) -> Sequence[Sequence[RowIndices]]:
        """The batches of each update of an epoch, in the order of `plan_epoch`: `accumulate` of them, as far as they last.

        A task whose losses cannot all be summed says here what belongs together.
        """
        plan = self.plan_epoch(epoch)
        return [plan[start : start + accumulate] for start in range(0, len(plan), accumulate)]

    def member_name(self, rows: RowIndices) -> str:
        """Which of several tasks these examples are of; they have no names where there is one."""
        return ""

    @abstractmethod
    def build_batch(self, rows: RowIndices) -> Batch:
        """These examples, ready for the model."""

    @abstractmethod
    def loss(self, model: Any, batch: Batch) -> Loss:
        """What training minimises."""

    @abstractmethod
    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Metrics on the validation set; the model is in evaluation mode and no gradient is recorded."""

    def choose_device(self, model_device: torch.device, requested: torch.device | None) -> torch.device:
        """Told before the first batch where the model is, and which place was asked for; says where batches will be."""
        return requested or model_device

    def on_update(self, nll: float, *, member: str = "") -> None:
        """Told after each update the mean of its `nll`, the same in all processes; most tasks need not know.

        Args:
            nll: of the part of that name, or of the loss where there is none.
            member: of several tasks the one that the update was of.
        """
        return

    def state_dict(self) -> Mapping[str, Tensor]:
        """What `on_update` taught the task itself, to be kept with the model's moments; nothing in most tasks."""
        return {}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up what `state_dict` gave."""
        return


@dataclass(eq=False)
class CorpusObjective(TrainingObjective[Batch]):
    """A task whose examples are the rows of a corpus.

    Abstract: what a batch is, and what is lost, belongs to the task.

    Attributes:
        train: examples to learn from.
        validation: examples to be measured on.
        batch_tokens: padded tokens in a batch.
        seed: of the order of examples.
        device: where the model is.
        mix_tokens: tokens of each of the texts that `train` is made of in an epoch, given how many there are; all of them
            unless given.
    """

    train: Corpus
    validation: Corpus
    _: KW_ONLY
    batch_tokens: int
    seed: int
    device: torch.device
    mix_tokens: Callable[[Sequence[int]], Sequence[float]] | None = None

    @abstractmethod
    def collate(self, corpus: Corpus, rows: RowIndices) -> Batch:
        """Some examples of a corpus."""

    def example_lengths(self, corpus: Corpus) -> Int[np.ndarray, "N 2"]:
        """Ids that each example takes in a batch, twice, as batches are planned."""
        return corpus.lengths

    @final
    def plan_epoch(self, epoch: int) -> Sequence[RowIndices]:
        """Batches of examples of similar length: of all there are, or of those that a mixture has for the epoch."""
        lengths, order = self._train_lengths, {"max_tokens": self.batch_tokens, "seed": self.seed, "epoch": epoch}
        if self._mixture is None:
            return batch_by_size(lengths, **order)
        rows = self._mixture.sample_epoch(epoch)
        return [rows[batch] for batch in batch_by_size(lengths[rows], **order)]

    @final
    def build_batch(self, rows: RowIndices) -> Batch:
        """These examples of the training text."""
        return move_to_device(self.collate(self.train, rows), self.device)

    @final
    def validation_batches(self) -> Iterator[Batch]:
        """The validation text, batch by batch."""
        for rows in batch_by_size(self.example_lengths(self.validation), max_tokens=self.batch_tokens, seed=0, epoch=0):
            yield move_to_device(self.collate(self.validation, rows), self.device)

    @final
    def choose_device(self, model_device: torch.device, requested: torch.device | None) -> torch.device:
        """Its own device, unless another one was asked for."""
        self.device = requested or self.device
        return self.device

    @cached_property
    def _train_lengths(self) -> Int[np.ndarray, "N 2"]:
        return self.example_lengths(self.train)

    @cached_property
    def _mixture(self) -> CorpusMixture | None:
        if len(self.train.text_reports) < 2:
            return None
        counts, lengths = [text.kept for text in self.train.text_reports], self._train_lengths[:, -1]
        tokens = sum_tokens_by_text(lengths, counts)
        return CorpusMixture(lengths, counts, tokens if self.mix_tokens is None else self.mix_tokens(tokens), self.seed)
