"""Losses of pre-training: BERT's masked tokens and sentence pairs, and ELECTRA's replaced tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.models.replaced_token_detector import ReplacedTokenDetector
from heedful.tasks.likelihood import cross_entropy
from heedful.tasks.objective import Loss, LossPart
from heedful.tensors import Tokens


@dataclass(frozen=True)
class MaskedBatch:
    """A batch of passages in which some tokens are masked.

    Attributes:
        tokens: the model's input.
        labels: the original token at each masked position, -1 elsewhere.
        follows: for each row 1 if its second segment follows the first, 0 if not; -1 if that is not asked.
    """

    tokens: Tokens
    labels: Int[Tensor, "B T"]
    follows: Int[Tensor, " B"]


class PretrainingLoss(ABC):
    """Negative log-likelihood of masked tokens, plus `weight` times a second loss.

    Attributes:
        metrics: the names that `compute_metrics` returns.
        second_names: names of the second loss's sum and of its number of questions.
        weight: of one question of the second loss, in masked tokens.
    """

    metrics: ClassVar[frozenset[str]]
    second_names: ClassVar[tuple[str, str]]
    weight: float

    @property
    def part_names(self) -> frozenset[str]:
        """Names of the parts of the loss."""
        return frozenset({"nll", self.second_names[0]})

    @final
    def compute_loss(self, model: Any, batch: MaskedBatch) -> Loss:
        """Compute the training loss, summed over masked tokens."""
        sums, (second_name, count_name) = self.run_model(model, batch, learning=True), self.second_names
        parts = {
            "nll": LossPart(sums["masked"].detach(), sums["tokens"]),
            second_name: LossPart(sums[second_name].detach(), sums[count_name]),
        }
        return Loss(sums["masked"] + self.weight * sums[second_name], sums["tokens"], parts)

    @final
    def compute_batch_sums(self, model: Any, batch: MaskedBatch) -> Mapping[str, float]:
        """Return the sums over a batch that `compute_metrics` needs: losses, correct answers and questions."""
        return {name: float(value) for name, value in self.run_model(model, batch, learning=False).items()}

    @abstractmethod
    def run_model(self, model: Any, batch: MaskedBatch, *, learning: bool) -> dict[str, Any]:
        """Run the model on a batch; return losses and counts, and numbers of correct answers if not `learning`."""

    @abstractmethod
    def compute_metrics(self, sums: Mapping[str, Any]) -> Mapping[str, Any]:
        """Compute metrics from sums over all batches; arrays of resampled sums give arrays."""


@dataclass(frozen=True)
class _MaskedPredictions:
    """The model's predictions at the masked positions.

    Attributes:
        indices: the masked positions in the flattened batch.
        labels: the original tokens.
        vectors: inputs of the output layer; only these go through the vocabulary.
        nll: negative log-likelihood of the labels, summed.
    """

    indices: Int[Tensor, " N"]
    labels: Int[Tensor, " N"]
    vectors: Float[Tensor, "N d_model"]
    nll: Float[Tensor, ""]

    @classmethod
    def from_hidden(
        cls, model: MaskedLanguageModel, hidden: Float[Tensor, "B T d_model"], labels: Int[Tensor, "B T"]
    ) -> _MaskedPredictions:
        """Apply the masked language modelling head to the hidden states at masked positions."""
        indices = (labels >= 0).flatten().nonzero().squeeze(1)
        targets = labels.flatten().index_select(0, indices)
        vectors = model.masked(hidden.flatten(0, 1).index_select(0, indices))
        return cls(indices, targets, vectors, cross_entropy(vectors, targets, output=model.masked.output)[0])


@final
class MaskedTokenLoss(PretrainingLoss):
    """Masked language modelling, plus sentence-pair classification if the model has it (Devlin et al. 2019, 3.1).

    Args:
        weight: of a sentence pair, in masked tokens.
    """

    metrics = frozenset({"loss", "masked_loss", "masked_accuracy", "pair_loss", "pair_accuracy"})
    second_names = ("pair", "pairs")

    def __init__(self, *, weight: float) -> None:
        self.weight = weight

    def compute_metrics(self, sums: Mapping[str, Any]) -> Mapping[str, Any]:
        """Compute losses (nats per masked token and per pair) and accuracies; `loss` is the sum of both mean losses.

        Without sentence pairs, their metrics are 0.
        """
        tokens, pairs = np.maximum(1.0, sums["tokens"]), np.maximum(1.0, sums["pairs"])
        masked, pair = sums["masked"] / tokens, sums["pair"] / pairs
        return {
            "loss": masked + pair,
            "masked_loss": masked,
            "masked_accuracy": sums["masked_right"] / tokens,
            "pair_loss": pair,
            "pair_accuracy": sums["pair_right"] / pairs,
        }

    def run_model(self, model: MaskedLanguageModel, batch: MaskedBatch, *, learning: bool) -> dict[str, Any]:
        """Predict the masked tokens, and whether the second segment follows the first."""
        memory = model(batch.tokens)
        predictions = _MaskedPredictions.from_hidden(model, memory.values, batch.labels)
        sums: dict[str, Any] = {"masked": predictions.nll, "tokens": len(predictions.indices)}
        sums |= {"pair": predictions.nll.new_zeros(()), "pairs": 0, "pair_right": 0}
        if not learning:
            sums["masked_right"] = (model.masked.output(predictions.vectors).argmax(-1) == predictions.labels).sum()
        if model.relation is not None:
            logits = model.relation(memory.summary)
            sums["pair"] = functional.cross_entropy(logits.float(), batch.follows, reduction="sum")
            sums["pairs"] = len(batch.follows)
            sums["pair_right"] = (logits.argmax(-1) == batch.follows).sum()
        return sums


@final
class ReplacedTokenLoss(PretrainingLoss):
    """The generator's masked language modelling loss, plus `weight` times the detector's loss.

    Masked tokens are replaced by samples from the generator; a sample that equals the original counts as not replaced
    (Clark et al. 2020, section 2). No gradient flows through the sampling.

    Args:
        weight: lambda, 50 in the paper, for means over masked tokens and over all tokens.
        share: share of masked tokens, which turns those means into sums: a detector decision counts `weight` times
            `share`.
    """

    metrics = frozenset({"loss", "masked_loss", "masked_accuracy", "replaced_loss", "replaced_found", "replaced_right"})
    second_names = ("verdict", "all")

    def __init__(self, *, weight: float, share: float) -> None:
        self.mean_weight = weight
        self.weight = weight * share

    def compute_metrics(self, sums: Mapping[str, Any]) -> Mapping[str, Any]:
        """Compute the generator's loss and accuracy on masked tokens, and the detector's on all tokens.

        `replaced_found` is the detector's recall of replaced tokens, `replaced_right` its accuracy; `loss` is the
        weighted sum that is minimised.
        """
        tokens, total = np.maximum(1.0, sums["tokens"]), np.maximum(1.0, sums["all"])
        masked, detection = sums["masked"] / tokens, sums["verdict"] / total
        return {
            "loss": masked + self.mean_weight * detection,
            "masked_loss": masked,
            "masked_accuracy": sums["masked_right"] / tokens,
            "replaced_loss": detection,
            "replaced_found": sums["found"] / np.maximum(1.0, sums["replaced"]),
            "replaced_right": sums["right"] / total,
        }

    def run_model(self, model: ReplacedTokenDetector, batch: MaskedBatch, *, learning: bool) -> dict[str, Any]:
        """Replace masked tokens with the generator and run the detector; evaluation takes the best tokens."""
        generator, is_token = model.generator, batch.tokens.positions >= 0
        assert generator is not None, "a model in training has a generator"
        predictions = _MaskedPredictions.from_hidden(generator, generator(batch.tokens).values, batch.labels)
        with torch.no_grad():
            replacements = _choose_replacements(generator.masked.output(predictions.vectors), draws=learning)
            is_masked = batch.labels >= 0
            ids = (
                torch.where(is_masked, batch.labels, batch.tokens.ids)
                .flatten()
                .index_copy(0, predictions.indices, replacements)
            )
            ids = ids.view_as(batch.labels)
            is_replaced = is_masked & (ids != batch.labels)
        detector_input = Tokens(ids, batch.tokens.positions, batch.tokens.segments)
        logits = model(detector_input).float()
        is_detected = logits > 0
        return {
            "masked": predictions.nll,
            "masked_right": (replacements == predictions.labels).sum(),
            "tokens": len(predictions.indices),
            "verdict": functional.binary_cross_entropy_with_logits(
                logits[is_token], is_replaced[is_token].float(), reduction="sum"
            ),
            "all": int(is_token.sum()),
            "replaced": is_replaced.sum(),
            "found": (is_detected & is_replaced).sum(),
            "right": ((is_detected == is_replaced) & is_token).sum(),
        }


def _choose_replacements(logits: Float[Tensor, "N V"], *, draws: bool) -> Int[Tensor, " N"]:
    """Return the most probable token of each row, or a sample if `draws`."""
    if not draws:
        return logits.argmax(-1)
    # the largest of log-probabilities with Gumbel noise is a draw
    noise = -torch.empty_like(logits).exponential_().log()
    return (logits + noise).argmax(-1)
