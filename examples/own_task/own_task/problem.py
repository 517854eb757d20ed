"""What is lost and measured: each label is a question of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn
from torch.nn import functional

from heedful.data.batches import batch_by_size, to_tokens
from heedful.data.corpus import Corpus
from heedful.metrics.metric import RatioMetric
from heedful.models.heads import TextClassifier
from heedful.tasks.objective import Loss, RowIndices, TrainingObjective
from heedful.tensors import Tokens, move_to_device


@dataclass(frozen=True)
class Batch:
    """Texts, and 1 for each label that is true of them."""

    tokens: Tokens
    labels: Float[Tensor, "B labels"]


def f1(said: np.ndarray, right: np.ndarray) -> RatioMetric:
    """F1 of all labels together; an example is a text."""
    return RatioMetric(2.0 * (said & right).sum(1), (said.sum(1) + right.sum(1)).astype(float))


class MultiLabel(TrainingObjective[Batch]):
    """Learning p(label | text) of each label, by the binary cross-entropy."""

    metric_names = frozenset({"loss", "f1"})

    def __init__(
        self, train: Corpus, validation: Corpus, *, batch_tokens: int, seed: int, device: torch.device
    ) -> None:
        self.train = train
        self.validation = validation
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.device = device

    def plan_epoch(self, epoch: int) -> Sequence[RowIndices]:
        """Batches of texts of similar length."""
        return batch_by_size(_lengths(self.train), max_tokens=self.batch_tokens, seed=self.seed, epoch=epoch)

    def build_batch(self, rows: RowIndices) -> Batch:
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
        for rows in batch_by_size(_lengths(self.validation), max_tokens=self.batch_tokens, seed=0, epoch=0):
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
        return move_to_device(Batch(to_tokens(corpus["text"].collate_ids(rows)), labels), self.device)


def _lengths(corpus: Corpus) -> np.ndarray:
    return np.stack([corpus["text"].lengths] * 2, axis=1)
