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

from heedful.data.bucketing import plan_batches
from heedful.data.corpus import Corpus
from heedful.data.mixing import Mixture, tokens_by_text
from heedful.values import move

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

    def settle(self, model: torch.device, given: torch.device | None) -> torch.device:
        """Told before the first batch where the model is, and which place was asked for; says where batches will be."""
        return given or model

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


@dataclass(eq=False)
class CorpusTask(Task[Batch]):
    """A task whose examples are the rows of a corpus.

    Abstract: what a batch is, and what is lost, belongs to the task.

    Attributes:
        train: examples to learn from.
        validation: examples to be measured on.
        batch_tokens: padded tokens in a batch.
        seed: of the order of examples.
        device: where the model is.
        mixed: tokens of each of the texts that `train` is made of in an epoch, given how many there are; all of them
            unless given.
    """

    train: Corpus
    validation: Corpus
    _: KW_ONLY
    batch_tokens: int
    seed: int
    device: torch.device
    mixed: Callable[[Sequence[int]], Sequence[float]] | None = None

    @abstractmethod
    def collate(self, corpus: Corpus, rows: Rows) -> Batch:
        """Some examples of a corpus."""

    def lengths(self, corpus: Corpus) -> Int[np.ndarray, "N 2"]:
        """Ids that each example takes in a batch, twice, as batches are planned."""
        return corpus.lengths

    @final
    def plan(self, epoch: int) -> Sequence[Rows]:
        """Batches of examples of similar length: of all there are, or of those that a mixture has for the epoch."""
        lengths, order = self._lengths, {"tokens": self.batch_tokens, "seed": self.seed, "epoch": epoch}
        if self._mixture is None:
            return plan_batches(lengths, **order)
        rows = self._mixture.rows(epoch)
        return [rows[batch] for batch in plan_batches(lengths[rows], **order)]

    @final
    def batch(self, rows: Rows) -> Batch:
        """These examples of the training text."""
        return move(self.collate(self.train, rows), self.device)

    @final
    def measured(self) -> Iterator[Batch]:
        """The validation text, batch by batch."""
        for rows in plan_batches(self.lengths(self.validation), tokens=self.batch_tokens, seed=0, epoch=0):
            yield move(self.collate(self.validation, rows), self.device)

    @final
    def settle(self, model: torch.device, given: torch.device | None) -> torch.device:
        """Its own device, unless another one was asked for."""
        self.device = given or self.device
        return self.device

    @cached_property
    def _lengths(self) -> Int[np.ndarray, "N 2"]:
        return self.lengths(self.train)

    @cached_property
    def _mixture(self) -> Mixture | None:
        if len(self.train.texts) < 2:
            return None
        counts, lengths = [text.kept for text in self.train.texts], self._lengths[:, -1]
        tokens = tokens_by_text(lengths, counts)
        return Mixture(lengths, counts, tokens if self.mixed is None else self.mixed(tokens), self.seed)
