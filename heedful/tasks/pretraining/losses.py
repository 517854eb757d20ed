"""What is asked about passages with hidden tokens: BERT's two questions, and ELECTRA's."""

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
    """Passages of which some tokens are hidden.

    Attributes:
        tokens: what the model reads.
        labels: the token at each place that is asked for, -1 elsewhere.
        follows: of each row 1 where its second part follows the first, else 0; -1 where that is not asked.
    """

    tokens: Tokens
    labels: Int[Tensor, "B T"]
    follows: Int[Tensor, " B"]


class PretrainingLoss(ABC):
    """The likelihood of hidden tokens, and `weight` times what else a model is asked about the passages.

    Attributes:
        metrics: the names that `compute_metrics` returns.
        second_names: what else is asked, by the names of its sum and of its number of questions.
        weight: of one such question, in hidden tokens.
    """

    metrics: ClassVar[frozenset[str]]
    second_names: ClassVar[tuple[str, str]]
    weight: float

    @property
    def part_names(self) -> frozenset[str]:
        """The names that the parts of its losses have."""
        return frozenset({"nll", self.second_names[0]})

    @final
    def compute_loss(self, model: Any, batch: MaskedBatch) -> Loss:
        """What training minimises, summed over hidden tokens."""
        sums, (second_name, count_name) = self.run_model(model, batch, learning=True), self.second_names
        parts = {
            "nll": LossPart(sums["masked"].detach(), sums["tokens"]),
            second_name: LossPart(sums[second_name].detach(), sums[count_name]),
        }
        return Loss(sums["masked"] + self.weight * sums[second_name], sums["tokens"], parts)

    @final
    def compute_batch_sums(self, model: Any, batch: MaskedBatch) -> Mapping[str, float]:
        """Of a batch, what `compute_metrics` needs the sums of: losses, right answers and questions."""
        return {name: float(value) for name, value in self.run_model(model, batch, learning=False).items()}

    @abstractmethod
    def run_model(self, model: Any, batch: MaskedBatch, *, learning: bool) -> dict[str, Any]:
        """Losses and questions, and right answers where it is not for learning."""

    @abstractmethod
    def compute_metrics(self, sums: Mapping[str, Any]) -> Mapping[str, Any]:
        """Metrics from the sums over all batches; sums of several drawings, as arrays, give arrays."""


@dataclass(frozen=True)
class _MaskedPredictions:
    """What a model makes of the hidden tokens.

    Attributes:
        indices: where they are, in all rows behind each other.
        labels: what they were.
        vectors: from which they are told; only these go through the vocabulary.
        nll: the negative log-likelihood of the labels, summed.
    """

    indices: Int[Tensor, " N"]
    labels: Int[Tensor, " N"]
    vectors: Float[Tensor, "N d_model"]
    nll: Float[Tensor, ""]

    @classmethod
    def from_hidden(
        cls, model: MaskedLanguageModel, hidden: Float[Tensor, "B T d_model"], labels: Int[Tensor, "B T"]
    ) -> _MaskedPredictions:
        indices = (labels >= 0).flatten().nonzero().squeeze(1)
        targets = labels.flatten().index_select(0, indices)
        vectors = model.masked(hidden.flatten(0, 1).index_select(0, indices))
        return cls(indices, targets, vectors, cross_entropy(vectors, targets, output=model.masked.output)[0])


@final
class MaskedTokenLoss(PretrainingLoss):
    """The likelihood of what is hidden, and of the answers about passages (Devlin et al. 2019, 3.1).

    Args:
        weight: of a question about passages, in hidden tokens.
    """

    metrics = frozenset({"loss", "masked_loss", "masked_accuracy", "pair_loss", "pair_accuracy"})
    second_names = ("pair", "pairs")

    def __init__(self, *, weight: float) -> None:
        self.weight = weight

    def compute_metrics(self, sums: Mapping[str, Any]) -> Mapping[str, Any]:
        """Losses (nats per hidden token, and per pair) and accuracies; `compute_loss` is the sum of both means.

        Where nothing is asked about passages, what is measured of it is 0.
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
        """Which tokens are hidden, and does the second passage follow the first?"""
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
    """The generator's likelihood of what is hidden, and `weight` times the detector's of what was replaced.

    Hidden tokens are replaced by draws from the generator; a draw that happens to be right was not replaced (Clark et
    al. 2020, section 2). No gradient flows through the draw.

    Args:
        weight: lambda, 50 in the paper, for means over hidden tokens and over all.
        share: of all tokens that are hidden, which makes sums of those means: a verdict counts `weight` times `share`.
    """

    metrics = frozenset({"loss", "masked_loss", "masked_accuracy", "replaced_loss", "replaced_found", "replaced_right"})
    second_names = ("verdict", "all")

    def __init__(self, *, weight: float, share: float) -> None:
        self.mean_weight = weight
        self.weight = weight * share

    def compute_metrics(self, sums: Mapping[str, Any]) -> Mapping[str, Any]:
        """Means: the generator's loss and accuracy on hidden tokens, the detector's loss on all tokens.

        `replaced_found` is the share of replaced tokens that are found out, `replaced_right` the share of verdicts that
        are right; `compute_loss` is the weighted sum that is minimised.
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
        """Which tokens were replaced? Measured, the generator takes its best token, and leaves nothing to chance."""
        generator, is_token = model.generator, batch.tokens.positions >= 0
        assert generator is not None, "what learns has somebody who replaces tokens"
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
    if not draws:
        return logits.argmax(-1)
    # the largest of log-probabilities with Gumbel noise is a draw
    noise = -torch.empty_like(logits).exponential_().log()
    return (logits + noise).argmax(-1)
