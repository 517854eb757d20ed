"""BERT's two questions: which tokens are hidden, and does the second passage follow the first?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from torch.nn import functional

from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.tasks.likelihood import cross_entropy
from heedful.tasks.pretraining.problem import MaskedBatch, Objective
from heedful.tasks.task import Loss, Part


@final
class HiddenTokens(Objective):
    """The likelihood of what is hidden, and of the answers about passages (Devlin et al. 2019, 3.1).

    Only the places that are asked for go through the vocabulary.

    Args:
        weight: of a question about passages, in hidden tokens.
    """

    metrics = frozenset({"loss", "masked_loss", "masked_accuracy", "pair_loss", "pair_accuracy"})
    parts = frozenset({"nll", "pair"})

    def __init__(self, *, weight: float) -> None:
        self.weight = weight

    def loss(self, model: MaskedLanguageModel, batch: MaskedBatch) -> Loss:
        """The negative log-likelihood of what is hidden, and `weight` times that of the answers about passages."""
        sums = _sums(model, batch)
        total = sums["masked"] + self.weight * sums["pair"]
        told = {
            "nll": Part(sums["masked"].detach(), sums["tokens"]),
            "pair": Part(sums["pair"].detach(), sums["pairs"]),
        }
        return Loss(total, sums["tokens"], told)

    def sums(self, model: MaskedLanguageModel, batch: MaskedBatch) -> Mapping[str, float]:
        """Losses, right answers and questions."""
        return {name: float(value) for name, value in _sums(model, batch, count_right=True).items()}

    def metrics_of(self, sums: Mapping[str, float]) -> Mapping[str, float]:
        """Losses (nats per hidden token, and per pair) and accuracies; `loss` is the sum of both means.

        Where nothing is asked about passages, what is measured of it is 0.
        """
        tokens, pairs = max(1.0, sums["tokens"]), max(1.0, sums["pairs"])
        masked, pair = sums["masked"] / tokens, sums["pair"] / pairs
        return {
            "loss": masked + pair,
            "masked_loss": masked,
            "masked_accuracy": sums["masked_right"] / tokens,
            "pair_loss": pair,
            "pair_accuracy": sums["pair_right"] / pairs,
        }


def _sums(model: MaskedLanguageModel, batch: MaskedBatch, *, count_right: bool = False) -> dict[str, Any]:
    memory = model(batch.tokens)
    asked = (batch.labels >= 0).flatten().nonzero().squeeze(1)
    labels = batch.labels.flatten().index_select(0, asked)
    vectors = model.masked(memory.values.flatten(0, 1).index_select(0, asked))
    masked, _ = cross_entropy(vectors, labels, output=model.masked.output)
    found: dict[str, Any] = {"masked": masked, "tokens": len(asked), "pair": masked.new_zeros(()), "pairs": 0}
    if count_right:
        found["masked_right"] = (model.masked.output(vectors).argmax(-1) == labels).sum()
        found["pair_right"] = 0
    if model.relation is not None:
        logits = model.relation(memory.summary)
        found["pair"] = functional.cross_entropy(logits.float(), batch.follows, reduction="sum")
        found["pairs"] = len(batch.follows)
        if count_right:
            found["pair_right"] = (logits.argmax(-1) == batch.follows).sum()
    return found
