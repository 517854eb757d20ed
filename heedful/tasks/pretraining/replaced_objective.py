"""ELECTRA's question: which tokens were replaced?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.models.replaced_token_detector import ReplacedTokenDetector
from heedful.tasks.likelihood import cross_entropy
from heedful.tasks.pretraining.problem import MaskedBatch, Objective
from heedful.tasks.task import Loss, Part
from heedful.values import Tokens


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
        sums = _sums(model, batch, draws=True)
        total = sums["masked"] + self.weight * self.share * sums["verdict"]
        told = {
            "nll": Part(sums["masked"].detach(), sums["tokens"]),
            "verdict": Part(sums["verdict"].detach(), sums["all"]),
        }
        return Loss(total, sums["tokens"], told)

    def sums(self, model: ReplacedTokenDetector, batch: MaskedBatch) -> Mapping[str, float]:
        """Losses, right answers and questions; the generator takes its best token, so nothing is left to chance."""
        return {name: float(value) for name, value in _sums(model, batch, draws=False).items()}

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


def _sums(model: ReplacedTokenDetector, batch: MaskedBatch, *, draws: bool) -> dict[str, Any]:
    asked = batch.labels >= 0
    places = asked.flatten().nonzero().squeeze(1)
    labels = batch.labels.flatten().index_select(0, places)
    vectors = _vectors(model.generator, batch.tokens, places)
    masked, _ = cross_entropy(vectors, labels, output=model.generator.masked.output)
    with torch.no_grad():
        filled = _filled(model.generator.masked.output(vectors), draws=draws)
        ids = torch.where(asked, batch.labels, batch.tokens.ids).flatten().index_copy(0, places, filled)
        ids = ids.view_as(batch.labels)
        replaced = asked & (ids != batch.labels)
    read = Tokens(ids, batch.tokens.positions, batch.tokens.segments)
    logits, real = model(read).float(), batch.tokens.positions >= 0
    verdict = functional.binary_cross_entropy_with_logits(logits[real], replaced[real].float(), reduction="sum")
    found = _right(logits, replaced, real)
    return {
        "masked": masked,
        "masked_right": (filled == labels).sum(),
        "tokens": len(places),
        "verdict": verdict,
        "all": int(real.sum()),
        **found,
    }


def _vectors(generator: MaskedLanguageModel, tokens: Tokens, places: Int[Tensor, " N"]) -> Float[Tensor, "N d_model"]:
    vectors: Tensor = generator.masked(generator(tokens).values.flatten(0, 1).index_select(0, places))
    return vectors


def _filled(logits: Float[Tensor, "N V"], *, draws: bool) -> Int[Tensor, " N"]:
    if not draws:
        return logits.argmax(-1)
    # the largest of log-probabilities with Gumbel noise is a draw
    noise = -torch.empty_like(logits).exponential_().log()
    return (logits + noise).argmax(-1)


def _right(logits: Float[Tensor, "B T"], replaced: Bool[Tensor, "B T"], real: Bool[Tensor, "B T"]) -> dict[str, Tensor]:
    said = logits > 0
    return {
        "replaced": replaced.sum(),
        "found": (said & replaced).sum(),
        "right": ((said == replaced) & real).sum(),
    }
