"""REINFORCE beside the likelihood, for attention that is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.hard import Drawn, MovingBaseline, surrogate
from heedful.data.batches import PairBatch
from heedful.inspection.watch import watch
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.tasks.likelihood import log_likelihoods
from heedful.tasks.task import Loss, Part
from heedful.tasks.translation.criterion import Criterion, Likelihood
from heedful.values import Tokens


@final
class Reinforced(Criterion):
    """The likelihood, and what is learned from slots that were drawn from attention's softmax (Xu et al. 2015, 4.1).

    All draws of a sentence earn the log-likelihood of its target beyond the baseline. That is kept for one label, as a
    moving mean over updates, and counts as often as the sentence has labels, so that long sentences are not blamed for
    their length.

    Args:
        likelihood: of the targets.
        reward: lambda_r (the equation after 12), the weight of what draws earned; 1 gives the gradient of the paper's
            lower bound.
        entropy: lambda_e, how much spread draws are favoured.
        decay: of the baseline.
    """

    parts = frozenset({"nll", "entropy"})

    def __init__(
        self, likelihood: Likelihood, *, reward: float = 1.0, entropy: float = 0.002, decay: float = 0.9
    ) -> None:
        self.likelihood = likelihood
        self.reward = reward
        self.entropy = entropy
        self.baseline = MovingBaseline(decay=decay)

    def loss(self, model: SequenceToSequence[Tokens], batch: PairBatch) -> Loss:
        """The likelihood, with the gradients of expected reward and entropy added to its own."""
        with watch(model, detach=False) as seen:
            hidden = model(batch.source, batch.target)
        likelihood = self.likelihood.judge(hidden, batch, output=model.output)
        real = batch.labels >= 0
        earned = _by_sentence(hidden, batch.labels, output=model.output)
        expected = self.baseline.value * real.sum(1, keepdim=True)
        weight, total, entropy = self.reward, likelihood.total, torch.zeros_like(likelihood.total)
        for drawn in _draws(seen):
            terms = surrogate(drawn, reward=weight * earned, baseline=weight * expected, entropy_weight=self.entropy)
            lesson = torch.where(real, terms, 0.0).sum()
            total = total + (lesson - lesson.detach())  # its value means nothing
            entropy += torch.where(real, drawn.entropy, 0.0).sum().detach()
        return Loss(total, likelihood.count, {**likelihood.parts, "entropy": Part(entropy, likelihood.count)})

    def learned(self, nll: float) -> None:
        """Moves the baseline towards the mean log-likelihood of the update's labels."""
        self.baseline = self.baseline.update(torch.tensor(-nll, dtype=torch.float64))

    def tensors(self) -> Mapping[str, Tensor]:
        """The baseline."""
        return {"baseline": torch.tensor(self.baseline.value, dtype=torch.float64)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The baseline as it was."""
        self.baseline = MovingBaseline(float(tensors["baseline"]), self.baseline.decay)


def _by_sentence(hidden: Float[Tensor, "B T d"], labels: Tensor, *, output: nn.Linear) -> Float[Tensor, "B 1"]:
    """log p(target | source, draws) of each sentence."""
    flat = labels.flatten()
    real = (flat >= 0).nonzero().squeeze(1)
    each = log_likelihoods(hidden.detach().flatten(0, 1)[real], flat[real], output=output)
    sums = each.new_zeros(len(labels)).index_add(0, real // labels.size(1), each)
    return sums.unsqueeze(1)


def _draws(seen: Mapping[str, Sequence[Tensor]]) -> Iterator[Drawn]:
    """Of each attention that drew, the draws of all steps, and what they were drawn from."""
    for name, calls in seen.items():
        if drawn_from := seen.get(f"{name}.choose"):
            yield Drawn.of(torch.cat(list(calls), 1), torch.cat(list(drawn_from), 1))
