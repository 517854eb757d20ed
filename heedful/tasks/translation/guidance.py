"""Guided alignment: one attention learns to look where links of words say that it should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.probe import SOURCE, Look
from heedful.data.batches import PairBatch
from heedful.data.links import LinkedBatch
from heedful.errors import RecipeError
from heedful.inspection.capture import places
from heedful.inspection.watch import watch
from heedful.models.conditional import Conditional
from heedful.tasks.criteria import Criterion
from heedful.tasks.task import Loss, Part
from heedful.tasks.translation.recipe import GuidedConfig
from heedful.values import Tokens

_LEAST: Final = torch.finfo(torch.float32).tiny


@final
@dataclass(frozen=True)
class Guided:
    """The attention that is guided.

    Attributes:
        path: of the attention in its model.
        head: of it; None for the mean of all.
    """

    path: str
    head: int | None

    @classmethod
    def of(cls, model: nn.Module, config: GuidedConfig) -> Guided:
        """What a recipe asks for, in a model.

        Raises:
            RecipeError: the model has no such attention, or none to its source at all.
        """
        found = [(path, place) for path, place in places(model).items() if _reads_source(place.look)]
        if not found:
            raise RecipeError("training.guided teaches attention to the source, which this model has not; leave it out")
        layer = len(found) - 1 if config.layer is None else config.layer
        if layer >= len(found):
            raise RecipeError(
                f"training.guided.layer = {layer}: the source is looked at in {len(found)} "
                f"layer{'s' * (len(found) > 1)}, counted from 0"
            )
        path, place = found[layer]
        head = None if config.head == "mean" else config.head
        if head is not None and head >= place.heads:
            raise RecipeError(
                f"training.guided.head = {head}: that attention has {place.heads} "
                f"head{'s' * (place.heads > 1)}, counted from 0"
            )
        return cls(path, head)

    def weights(self, calls: Sequence[Tensor]) -> Float[Tensor, "B T S"]:
        """Its weights, of all calls one after the other."""
        return headed(calls, self.head)


def headed(calls: Sequence[Tensor], head: int | None) -> Float[Tensor, "B T S"]:
    """The weights of one head, or the mean over all; recurrent models attend in one call for each token."""
    return torch.cat([_one(call, head) for call in calls], 1)


def _one(call: Tensor, head: int | None) -> Float[Tensor, "B T S"]:
    if call.dim() == 3:
        return call
    return call.mean(1) if head is None else call[:, head]


def _reads_source(look: Look) -> bool:
    return look.role == "cross" and look.keys == SOURCE


@final
class GuidedCriterion(Criterion):
    """Another criterion, and the cross entropy of one attention with the links of pieces (Chen et al. 2016).

    With G_ti = 1 / (links of t) where the target's piece t is linked with the source's piece i, and 0 elsewhere, and A
    the weights while t is written, it adds -weight sum_ti G_ti log A_ti. Pieces without links do not count. The part
    `guided` is the sum without the weight, for each piece that has links.

    Args:
        other: what is minimised besides.
        config: which attention, and the weight.
    """

    def __init__(self, other: Criterion, config: GuidedConfig) -> None:
        self.other = other
        self.config = config
        self.parts = other.parts | {"guided"}

    def loss(self, model: Conditional[Tokens], batch: PairBatch[Tokens]) -> Loss:
        """The sum of both."""
        assert isinstance(batch, LinkedBatch), "what is guided has links"
        guided = Guided.of(model, self.config)
        with watch(model, detach=False, only={guided.path}) as seen:
            loss = self.other.loss(model, batch)
        weights = guided.weights(seen[guided.path])
        row, label, place = batch.links.T
        chances = weights[row, label, place].float().clamp_min(_LEAST)
        missed = -(batch.shares * chances.log()).sum()
        total = loss.total + self.config.weight * missed
        return Loss(total, loss.count, {**loss.parts, "guided": Part(missed.detach(), batch.taught)})

    def learned(self, nll: float) -> None:
        """Passed on."""
        self.other.learned(nll)

    def tensors(self) -> Mapping[str, Tensor]:
        """The other's."""
        return self.other.tensors()

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Passed on."""
        self.other.restore(tensors)
