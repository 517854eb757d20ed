"""Translation as a task: parallel text, label-smoothed likelihood, perplexity and BLEU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from heedful.data.batches import PairBatch, collate
from heedful.data.bucketing import plan_batches
from heedful.data.corpus import Corpus
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.tasks.task import Loss, Rows, Task
from heedful.tasks.translation.criterion import Criterion, Likelihood
from heedful.values import Tokens, move


class Translation(Task[PairBatch]):
    """Learning p(target | source) from pairs.

    Args:
        train: pairs to learn from.
        validation: pairs to be measured on.
        bos: what a target begins with.
        criterion: what is minimised.
        batch_tokens: padded target tokens in a batch.
        seed: of the order of pairs.
        device: where the model is.
        translation_score: metrics that need translations, measured by a function of the model; None measures none.
    """

    def __init__(
        self,
        train: Corpus,
        validation: Corpus,
        *,
        bos: int,
        criterion: Criterion,
        batch_tokens: int,
        seed: int,
        device: torch.device,
        translation_score: Callable[[nn.Module], float] | None = None,
    ) -> None:
        self.train = train
        self.validation = validation
        self.bos = bos
        self.criterion = criterion
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.device = device
        self.translation_score = translation_score
        self.metrics = frozenset({"loss", "perplexity"} | ({"bleu"} if translation_score else set()))
        self.parts = criterion.parts

    def plan(self, epoch: int) -> Sequence[Rows]:
        """Batches of pairs of similar length."""
        return plan_batches(self.train.lengths, tokens=self.batch_tokens, seed=self.seed, epoch=epoch)

    def batch(self, rows: Rows) -> PairBatch:
        """These pairs of the training text."""
        return move(collate(self.train, rows, bos=self.bos), self.device)

    def loss(self, model: SequenceToSequence[Tokens], batch: PairBatch) -> Loss:
        """The criterion's."""
        return self.criterion.loss(model, batch)

    def learned(self, nll: float, *, member: str = "") -> None:
        """Passed on to the criterion."""
        self.criterion.learned(nll)

    def tensors(self) -> Mapping[str, Tensor]:
        """The criterion's."""
        return self.criterion.tensors()

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Passed on to the criterion."""
        self.criterion.restore(tensors)

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Loss (nats per label, not smoothed) and perplexity on the validation text, and BLEU if asked for."""
        assert isinstance(model, SequenceToSequence)
        total, count = 0.0, 0
        plain = Likelihood()
        for rows in plan_batches(self.validation.lengths, tokens=self.batch_tokens, seed=0, epoch=0):
            loss = plain.loss(model, move(collate(self.validation, rows, bos=self.bos), self.device))
            total += float(loss.parts["nll"].total)
            count += loss.count
        metrics = {"loss": total / count, "perplexity": _perplexity(total / count)}
        if self.translation_score is not None:
            metrics["bleu"] = self.translation_score(model)
        return metrics


def _perplexity(nll: float) -> float:
    return math.exp(nll) if nll < np.log(np.finfo(float).max) else math.inf
