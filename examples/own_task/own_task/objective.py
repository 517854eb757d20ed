"""The loss and the metrics; each label is an independent binary decision."""

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
    """Texts with a 1 for each label that they have, and a 0 for the others."""

    tokens: Tokens
    labels: Float[Tensor, "B labels"]


def compute_f1(predicted: np.ndarray, expected: np.ndarray) -> RatioMetric:
    """Return the F1 of all labels together; each text is an example."""
    return RatioMetric(2.0 * (predicted & expected).sum(1), (predicted.sum(1) + expected.sum(1)).astype(float))


class MultiLabelObjective(TrainingObjective[Batch]):
    """Objective that trains p(label | text) of each label with the binary cross-entropy."""

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
        """Plan batches of texts of similar length."""
        return batch_by_size(_get_lengths(self.train), max_tokens=self.batch_tokens, seed=self.seed, epoch=epoch)

    def build_batch(self, rows: RowIndices) -> Batch:
        """Build a batch of these texts."""
        return self._collate(self.train, rows)

    def loss(self, model: TextClassifier, batch: Batch) -> Loss:
        """Return the loss summed over all labels, and the number of texts."""
        logits = model.output(model(batch.tokens)).float()
        total = functional.binary_cross_entropy_with_logits(logits, batch.labels, reduction="sum")
        return Loss(total, len(batch.labels))

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Return the loss in nats per text, and F1."""
        assert isinstance(model, TextClassifier)
        total, predicted, expected = 0.0, [], []
        for rows in batch_by_size(_get_lengths(self.validation), max_tokens=self.batch_tokens, seed=0, epoch=0):
            batch = self._collate(self.validation, rows)
            total += float(self.loss(model, batch).total)
            predicted.append((model.output(model(batch.tokens)) > 0).cpu().numpy())
            expected.append(batch.labels.cpu().numpy() > 0)
        return {
            "loss": total / len(self.validation),
            "f1": compute_f1(np.concatenate(predicted), np.concatenate(expected)).value,
        }

    def _collate(self, corpus: Corpus, rows: Integer[np.ndarray, " B"]) -> Batch:
        labels = torch.from_numpy(np.stack([corpus["labels"][row] for row in rows]).astype(np.float32))
        return move_to_device(Batch(to_tokens(corpus["text"].collate_ids(rows)), labels), self.device)


def _get_lengths(corpus: Corpus) -> np.ndarray:
    return np.stack([corpus["text"].lengths] * 2, axis=1)
