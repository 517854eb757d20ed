"""Translation as a task: parallel text, label-smoothed likelihood, perplexity and BLEU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.data.batches import PairBatch, collate
from heedful.data.bucketing import plan_batches
from heedful.data.corpus import Corpus
from heedful.data.tokenizers import PAD
from heedful.inspection.watch import watch
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.tasks.decorrelation import decorrelation
from heedful.tasks.interface import Loss, Rows, Task
from heedful.tasks.likelihood import cross_entropy
from heedful.values import Tokens, move


@dataclass(frozen=True)
class Criterion:
    """What training minimises beside plain likelihood.

    Attributes:
        smoothing: of the labels, over the whole vocabulary.
        decorrelation: weight of the penalty on heads that look alike, per label.
    """

    smoothing: float = 0.0
    decorrelation: float = 0.0


class Translation(Task[PairBatch]):
    """Learning p(target | source) from pairs.

    Args:
        train: pairs to learn from.
        validation: pairs to be measured on.
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
        criterion: Criterion,
        batch_tokens: int,
        seed: int,
        device: torch.device,
        translation_score: Callable[[nn.Module], float] | None = None,
    ) -> None:
        self.train = train
        self.validation = validation
        self.criterion = criterion
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.device = device
        self.translation_score = translation_score
        self.metrics = frozenset({"loss", "perplexity"} | ({"bleu"} if translation_score else set()))

    def plan(self, epoch: int) -> Sequence[Rows]:
        """Batches of pairs of similar length."""
        return plan_batches(self.train.lengths, tokens=self.batch_tokens, seed=self.seed, epoch=epoch)

    def batch(self, rows: Rows) -> PairBatch:
        """These pairs of the training text."""
        return move(collate(self.train, rows), self.device)

    def loss(self, model: SequenceToSequence[Tokens], batch: PairBatch) -> Loss:
        """Label-smoothed negative log-likelihood of the targets, and the penalty on heads if wanted."""
        if not self.criterion.decorrelation:
            return self._likelihood(model, batch)
        with watch(model, detach=False) as weights:
            likelihood = self._likelihood(model, batch)
        # padding asks too where everything is visible, and must not count
        asked = {"encoder": batch.source.positions >= 0, "decoder": batch.target.positions >= 0}
        penalty = decorrelation(
            each * asked[name.partition(".")[0]][:, None, :, None] for name, calls in weights.items() for each in calls
        )
        total = likelihood.total + self.criterion.decorrelation * penalty
        return Loss(total, likelihood.count, {**likelihood.parts, "decorrelation": penalty.detach()})

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Loss (nats per label, not smoothed) and perplexity on the validation text, and BLEU if asked for."""
        assert isinstance(model, SequenceToSequence)
        total, count = 0.0, 0
        for rows in plan_batches(self.validation.lengths, tokens=self.batch_tokens, seed=0, epoch=0):
            loss = self._likelihood(model, move(collate(self.validation, rows), self.device))
            total += float(loss.parts["nll"])
            count += loss.count
        metrics = {"loss": total / count, "perplexity": _perplexity(total / count)}
        if self.translation_score is not None:
            metrics["bleu"] = self.translation_score(model)
        return metrics

    def _likelihood(self, model: SequenceToSequence[Tokens], batch: PairBatch) -> Loss:
        return self._judged(model(batch.source, batch.target), batch, output=model.output)

    def _judged(self, hidden: Float[Tensor, "B T d"], batch: PairBatch, *, output: nn.Linear) -> Loss:
        real = (batch.labels != PAD).flatten().nonzero().squeeze(1)
        smoothed, nll = cross_entropy(
            hidden.flatten(0, 1).index_select(0, real),
            batch.labels.flatten().index_select(0, real),
            output=output,
            smoothing=self.criterion.smoothing,
        )
        return Loss(smoothed, len(real), {"nll": nll})


def _perplexity(nll: float) -> float:
    return math.exp(nll) if nll < np.log(np.finfo(float).max) else math.inf
