"""What is lost and measured: each label is a question of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn
from torch.nn import functional

from heedful.data.batches import tokens_of
from heedful.data.bucketing import plan_batches
from heedful.data.corpus import Corpus
from heedful.metrics.metric import Ratio
from heedful.models.text_classifier import TextClassifier
from heedful.tasks.task import Loss, Rows, Task
from heedful.values import Tokens, move


@dataclass(frozen=True)
class Batch:
    """Texts, and 1 for each label that is true of them."""

    tokens: Tokens
    labels: Float[Tensor, "B labels"]


def f1(said: np.ndarray, right: np.ndarray) -> Ratio:
    """F1 of all labels together; an example is a text."""
    return Ratio(2.0 * (said & right).sum(1), (said.sum(1) + right.sum(1)).astype(float))


class MultiLabel(Task[Batch]):
    """Learning p(label | text) of each label, by the binary cross-entropy."""

    metrics = frozenset({"loss", "f1"})

    def __init__(
        self, train: Corpus, validation: Corpus, *, batch_tokens: int, seed: int, device: torch.device
    ) -> None:
        self.train = train
        self.validation = validation
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.device = device

    def plan(self, epoch: int) -> Sequence[Rows]:
        """Batches of texts of similar length."""
        return plan_batches(_lengths(self.train), tokens=self.batch_tokens, seed=self.seed, epoch=epoch)

    def batch(self, rows: Rows) -> Batch:
        """These texts."""
        return self._collated(self.train, rows)

    def loss(self, model: TextClassifier, batch: Batch) -> Loss:
        """Summed over labels, counted by texts."""
        logits = model.output(model(batch.tokens)).float()
        total = functional.binary_cross_entropy_with_logits(logits, batch.labels, reduction="sum")
        return Loss(total, len(batch.labels))

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Nats for each text, and F1."""
        assert isinstance(model, TextClassifier)
        total, said, right = 0.0, [], []
        for rows in plan_batches(_lengths(self.validation), tokens=self.batch_tokens, seed=0, epoch=0):
            batch = self._collated(self.validation, rows)
            total += float(self.loss(model, batch).total)
            said.append((model.output(model(batch.tokens)) > 0).cpu().numpy())
            right.append(batch.labels.cpu().numpy() > 0)
        return {
            "loss": total / len(self.validation),
            "f1": f1(np.concatenate(said), np.concatenate(right)).value,
        }

    def _collated(self, corpus: Corpus, rows: Integer[np.ndarray, " B"]) -> Batch:
        labels = torch.from_numpy(np.stack([corpus["labels"][row] for row in rows]).astype(np.float32))
        return move(Batch(tokens_of(corpus["text"].padded(rows)), labels), self.device)


def _lengths(corpus: Corpus) -> np.ndarray:
    return np.stack([corpus["text"].lengths] * 2, axis=1)
