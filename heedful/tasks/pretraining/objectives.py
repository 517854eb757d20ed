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
    """The likelihood of hidden tokens, and `weight` times what else a model is asked about the passages.

    Attributes:
        metrics: the names that `metrics_of` returns.
        second: what else is asked, by the names of its sum and of its number of questions.
        weight: of one such question, in hidden tokens.
    """

    metrics: ClassVar[frozenset[str]]
    second: ClassVar[tuple[str, str]]
    weight: float

    @property
    def parts(self) -> frozenset[str]:
        """The names that the parts of its losses have."""
        return frozenset({"nll", self.second[0]})

    @final
    def loss(self, model: Any, batch: MaskedBatch) -> Loss:
        """What training minimises, summed over hidden tokens."""
        sums, (second, questions) = self.asked(model, batch, learning=True), self.second
        told = {
            "nll": Part(sums["masked"].detach(), sums["tokens"]),
            second: Part(sums[second].detach(), sums[questions]),
        }
        return Loss(sums["masked"] + self.weight * sums[second], sums["tokens"], told)

    @final
    def sums(self, model: Any, batch: MaskedBatch) -> Mapping[str, float]:
        """Of a batch, what `metrics_of` needs the sums of: losses, right answers and questions."""
        return {name: float(value) for name, value in self.asked(model, batch, learning=False).items()}

    @abstractmethod
    def asked(self, model: Any, batch: MaskedBatch, *, learning: bool) -> dict[str, Any]:
        """Losses and questions, and right answers where it is not for learning."""

    @abstractmethod
    def metrics_of(self, sums: Mapping[str, Any]) -> Mapping[str, Any]:
        """Metrics from the sums over all batches; sums of several drawings, as arrays, give arrays."""


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
    second = ("pair", "pairs")

    def __init__(self, *, weight: float) -> None:
        self.weight = weight

    def metrics_of(self, sums: Mapping[str, Any]) -> Mapping[str, Any]:
        """Losses (nats per hidden token, and per pair) and accuracies; `loss` is the sum of both means.

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

    def asked(self, model: MaskedLanguageModel, batch: MaskedBatch, *, learning: bool) -> dict[str, Any]:
        """Which tokens are hidden, and does the second passage follow the first?"""
        memory = model(batch.tokens)
        asked = _Asked.of(model, memory.values, batch.labels)
        found: dict[str, Any] = {"masked": asked.nll, "tokens": len(asked.places)}
        found |= {"pair": asked.nll.new_zeros(()), "pairs": 0, "pair_right": 0}
        if not learning:
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
        share: of all tokens that are hidden, which makes sums of those means: a verdict counts `weight` times `share`.
    """

    metrics = frozenset({"loss", "masked_loss", "masked_accuracy", "replaced_loss", "replaced_found", "replaced_right"})
    second = ("verdict", "all")

    def __init__(self, *, weight: float, share: float) -> None:
        self.balance = weight
        self.weight = weight * share

    def metrics_of(self, sums: Mapping[str, Any]) -> Mapping[str, Any]:
        """Means: the generator's loss and accuracy on hidden tokens, the detector's loss on all tokens.

        `replaced_found` is the share of replaced tokens that are found out, `replaced_right` the share of verdicts that
        are right; `loss` is the weighted sum that is minimised.
        """
        tokens, all_of_them = np.maximum(1.0, sums["tokens"]), np.maximum(1.0, sums["all"])
        masked, verdict = sums["masked"] / tokens, sums["verdict"] / all_of_them
        return {
            "loss": masked + self.balance * verdict,
            "masked_loss": masked,
            "masked_accuracy": sums["masked_right"] / tokens,
            "replaced_loss": verdict,
            "replaced_found": sums["found"] / np.maximum(1.0, sums["replaced"]),
            "replaced_right": sums["right"] / all_of_them,
        }

    def asked(self, model: ReplacedTokenDetector, batch: MaskedBatch, *, learning: bool) -> dict[str, Any]:
        """Which tokens were replaced? Measured, the generator takes its best token, and leaves nothing to chance."""
        generator, real = model.generator, batch.tokens.positions >= 0
        assert generator is not None, "what learns has somebody who replaces tokens"
        asked = _Asked.of(generator, generator(batch.tokens).values, batch.labels)
        with torch.no_grad():
            filled = _filled(generator.masked.output(asked.vectors), draws=learning)
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
