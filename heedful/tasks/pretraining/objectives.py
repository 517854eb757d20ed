"""What is asked about passages with hidden tokens: BERT's two questions, and ELECTRA's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.models.replaced_token_detector import ReplacedTokenDetector
from heedful.tasks.likelihood import cross_entropy
from heedful.tasks.task import Loss, Part
from heedful.values import Tokens


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


class Objective(ABC):
    """What a model is asked about passages of which some tokens are hidden."""

    metrics: frozenset[str]
    """The names that `metrics_of` returns."""
    parts: frozenset[str]
    """The names that the parts of its losses have."""

    @abstractmethod
    def loss(self, model: Any, batch: MaskedBatch) -> Loss:
        """What training minimises."""

    @abstractmethod
    def sums(self, model: Any, batch: MaskedBatch) -> Mapping[str, float]:
        """Of a batch, what `metrics_of` needs the sums of."""

    @abstractmethod
    def metrics_of(self, sums: Mapping[str, float]) -> Mapping[str, float]:
        """Metrics from the sums over all batches."""


@dataclass(frozen=True)
class _Asked:
    """What a model makes of the hidden tokens.

    Attributes:
        places: where they are, in all rows behind each other.
        labels: what they were.
        vectors: from which they are told; only these go through the vocabulary.
        nll: the negative log-likelihood of the labels, summed.
    """

    places: Int[Tensor, " N"]
    labels: Int[Tensor, " N"]
    vectors: Float[Tensor, "N d_model"]
    nll: Float[Tensor, ""]

    @classmethod
    def of(cls, model: MaskedLanguageModel, hidden: Float[Tensor, "B T d_model"], labels: Int[Tensor, "B T"]) -> _Asked:
        places = (labels >= 0).flatten().nonzero().squeeze(1)
        asked = labels.flatten().index_select(0, places)
        vectors = model.masked(hidden.flatten(0, 1).index_select(0, places))
        return cls(places, asked, vectors, cross_entropy(vectors, asked, output=model.masked.output)[0])


@final
class HiddenTokens(Objective):
    """The likelihood of what is hidden, and of the answers about passages (Devlin et al. 2019, 3.1).

    Args:
        weight: of a question about passages, in hidden tokens.
    """

    metrics = frozenset({"loss", "masked_loss", "masked_accuracy", "pair_loss", "pair_accuracy"})
    parts = frozenset({"nll", "pair"})

    def __init__(self, *, weight: float) -> None:
        self.weight = weight

    def loss(self, model: MaskedLanguageModel, batch: MaskedBatch) -> Loss:
        """The negative log-likelihood of what is hidden, and `weight` times that of the answers about passages."""
        sums = self._sums(model, batch, count_right=False)
        total = sums["masked"] + self.weight * sums["pair"]
        told = {
            "nll": Part(sums["masked"].detach(), sums["tokens"]),
            "pair": Part(sums["pair"].detach(), sums["pairs"]),
        }
        return Loss(total, sums["tokens"], told)

    def sums(self, model: MaskedLanguageModel, batch: MaskedBatch) -> Mapping[str, float]:
        """Losses, right answers and questions."""
        return {name: float(value) for name, value in self._sums(model, batch, count_right=True).items()}

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

    def _sums(self, model: MaskedLanguageModel, batch: MaskedBatch, *, count_right: bool) -> dict[str, Any]:
        memory = model(batch.tokens)
        asked = _Asked.of(model, memory.values, batch.labels)
        found: dict[str, Any] = {"masked": asked.nll, "tokens": len(asked.places)}
        found |= {"pair": asked.nll.new_zeros(()), "pairs": 0, "pair_right": 0}
        if count_right:
            found["masked_right"] = (model.masked.output(asked.vectors).argmax(-1) == asked.labels).sum()
        if model.relation is not None:
            logits = model.relation(memory.summary)
            found["pair"] = functional.cross_entropy(logits.float(), batch.follows, reduction="sum")
            found["pairs"] = len(batch.follows)
            found["pair_right"] = (logits.argmax(-1) == batch.follows).sum()
        return found


@final
class ReplacedTokens(Objective):
    """The generator's likelihood of what is hidden, and `weight` times the detector's of what was replaced.

    Hidden tokens are replaced by draws from the generator; a draw that happens to be right was not replaced (Clark et
    al. 2020, section 2). No gradient flows through the draw.

    Args:
        weight: lambda, 50 in the paper, for means over hidden tokens and over all.
        share: of all tokens that are hidden, which makes sums of those means.
    """

    metrics = frozenset({"loss", "masked_loss", "masked_accuracy", "replaced_loss", "replaced_found", "replaced_right"})
    parts = frozenset({"nll", "verdict"})

    def __init__(self, *, weight: float, share: float) -> None:
        self.weight = weight
        self.share = share

    def loss(self, model: ReplacedTokenDetector, batch: MaskedBatch) -> Loss:
        """Both, summed over hidden tokens; a token's verdict counts `weight` times `share`."""
        sums = self._sums(model, batch, draws=True)
        total = sums["masked"] + self.weight * self.share * sums["verdict"]
        told = {
            "nll": Part(sums["masked"].detach(), sums["tokens"]),
            "verdict": Part(sums["verdict"].detach(), sums["all"]),
        }
        return Loss(total, sums["tokens"], told)

    def sums(self, model: ReplacedTokenDetector, batch: MaskedBatch) -> Mapping[str, float]:
        """Losses, right answers and questions; the generator takes its best token, so nothing is left to chance."""
        return {name: float(value) for name, value in self._sums(model, batch, draws=False).items()}

    def metrics_of(self, sums: Mapping[str, float]) -> Mapping[str, float]:
        """Means: the generator's loss and accuracy on hidden tokens, the detector's loss on all tokens.

        `replaced_found` is the share of replaced tokens that are found out, `replaced_right` the share of verdicts that
        are right; `loss` is the weighted sum that is minimised.
        """
        tokens, all_of_them = max(1.0, sums["tokens"]), max(1.0, sums["all"])
        masked, verdict = sums["masked"] / tokens, sums["verdict"] / all_of_them
        return {
            "loss": masked + self.weight * verdict,
            "masked_loss": masked,
            "masked_accuracy": sums["masked_right"] / tokens,
            "replaced_loss": verdict,
            "replaced_found": sums["found"] / max(1.0, sums["replaced"]),
            "replaced_right": sums["right"] / all_of_them,
        }

    def _sums(self, model: ReplacedTokenDetector, batch: MaskedBatch, *, draws: bool) -> dict[str, Any]:
        generator, real = model.generator, batch.tokens.positions >= 0
        asked = _Asked.of(generator, generator(batch.tokens).values, batch.labels)
        with torch.no_grad():
            filled = _filled(generator.masked.output(asked.vectors), draws=draws)
            hidden = batch.labels >= 0
            ids = torch.where(hidden, batch.labels, batch.tokens.ids).flatten().index_copy(0, asked.places, filled)
            ids = ids.view_as(batch.labels)
            replaced = hidden & (ids != batch.labels)
        read = Tokens(ids, batch.tokens.positions, batch.tokens.segments)
        logits = model(read).float()
        said = logits > 0
        return {
            "masked": asked.nll,
            "masked_right": (filled == asked.labels).sum(),
            "tokens": len(asked.places),
            "verdict": functional.binary_cross_entropy_with_logits(
                logits[real], replaced[real].float(), reduction="sum"
            ),
            "all": int(real.sum()),
            "replaced": replaced.sum(),
            "found": (said & replaced).sum(),
            "right": ((said == replaced) & real).sum(),
        }


def _filled(logits: Float[Tensor, "N V"], *, draws: bool) -> Int[Tensor, " N"]:
    if not draws:
        return logits.argmax(-1)
    # the largest of log-probabilities with Gumbel noise is a draw
    noise = -torch.empty_like(logits).exponential_().log()
    return (logits + noise).argmax(-1)
