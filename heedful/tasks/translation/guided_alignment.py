"""Guided alignment: training of one attention with word alignments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.hooks import SOURCE_AXIS, AttentionRole
from heedful.data.batches import PairBatch
from heedful.data.word_alignments import AlignedBatch
from heedful.errors import RecipeError
from heedful.inspection.capture import find_attention_sites, watch_attention
from heedful.models.generative import ConditionalModel
from heedful.tasks.generation_objective import AddedTermCriterion, Criterion
from heedful.tasks.objective import Loss, LossPart
from heedful.tasks.translation.recipe import GuidedConfig
from heedful.tensors import Tokens

_MIN_WEIGHT: Final = torch.finfo(torch.float32).tiny


@final
@dataclass(frozen=True)
class GuidedAttention:
    """The attention that is trained with word alignments.

    Attributes:
        path: of the attention in its model.
        head: its head; None for the mean of all heads.
    """

    path: str
    head: int | None

    @classmethod
    def from_config(cls, model: nn.Module, config: GuidedConfig) -> GuidedAttention:
        """Find the attention of a model that a configuration names.

        Raises:
            RecipeError: the model has no such attention, or none to its source at all.
        """
        attentions = [
            (path, info) for path, info in find_attention_sites(model).items() if _is_source_attention(info.declaration)
        ]
        if not attentions:
            raise RecipeError("training.guided teaches attention to the source, but this model has none; leave it out")
        layer = len(attentions) - 1 if config.layer is None else config.layer
        if layer >= len(attentions):
            raise RecipeError(
                f"training.guided.layer = {layer}: this model attends to the source in {len(attentions)} "
                f"layer{'s' * (len(attentions) > 1)}, counted from 0"
            )
        path, info = attentions[layer]
        head = None if config.head == "mean" else config.head
        if head is not None and head >= info.heads:
            raise RecipeError(
                f"training.guided.head = {head}: that attention has {info.heads} "
                f"head{'s' * (info.heads > 1)}, counted from 0"
            )
        return cls(path, head)

    def get_weights(self, attention_calls: Sequence[Tensor]) -> Float[Tensor, "B T S"]:
        """Return the weights of the guided head from all calls, concatenated."""
        return select_head(attention_calls, self.head)


def select_head(attention_calls: Sequence[Tensor], head: int | None) -> Float[Tensor, "B T S"]:
    """Return the weights of one head, or the mean over all if `head` is None, concatenated over calls (recurrent models
    make one call per token).
    """
    return torch.cat([_select_head(call, head) for call in attention_calls], 1)


def _select_head(weights: Tensor, head: int | None) -> Float[Tensor, "B T S"]:
    """Return the weights of one head, or the mean of all, of one call."""
    if weights.dim() == 3:
        return weights
    return weights.mean(1) if head is None else weights[:, head]


def _is_source_attention(attention_look: AttentionRole) -> bool:
    """Return whether an attention reads the source."""
    return attention_look.kind == "cross" and attention_look.keys == SOURCE_AXIS


@final
class GuidedCriterion(AddedTermCriterion):
    """Another criterion plus the cross-entropy of one attention with piece alignments (Chen et al. 2016).

    With G_ti = 1 / (links of t) where the target's piece t is linked with the source's piece i, and 0 elsewhere, and A
    the attention weights while t is generated, it adds -weight sum_ti G_ti log A_ti. Pieces without links do not count.
    The part `guided` is the sum without the weight, for each piece that has links.

    Args:
        base: the criterion to which it is added.
        config: selects the attention, and the weight.
    """

    def __init__(self, base: Criterion, config: GuidedConfig) -> None:
        super().__init__(base, part="guided")
        self.config = config

    def loss(self, model: ConditionalModel[Tokens], batch: PairBatch[Tokens]) -> Loss:
        """Compute the loss of the base criterion on a batch with piece alignments, plus the weighted alignment loss."""
        assert isinstance(batch, AlignedBatch), "what is guided has links"
        guided = GuidedAttention.from_config(model, self.config)
        with watch_attention(model, detach=False, paths={guided.path}) as recorded:
            loss = self.base.loss(model, batch)
        weights = guided.get_weights(recorded[guided.path])
        row, label, column = batch.links.T
        probabilities = weights[row, label, column].float().clamp_min(_MIN_WEIGHT)
        alignment_loss = -(batch.link_weights * probabilities.log()).sum()
        total = loss.total + self.config.weight * alignment_loss
        part = LossPart(alignment_loss.detach(), batch.num_linked_labels)
        return replace(loss, total=total, parts={**loss.parts, "guided": part})
