"""What models that write are taught by: the likelihood of their targets, and what may stand beside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.attention.hard import Drawn, MovingBaseline, surrogate
from heedful.attention.probe import SOURCE, WRITTEN
from heedful.data.batches import PairBatch
from heedful.inspection.capture import places
from heedful.inspection.watch import watch
from heedful.models.conditional import Conditional
from heedful.recipes.training import WritingTrainingConfig
from heedful.tasks.decorrelation import decorrelation
from heedful.tasks.likelihood import cross_entropy, log_likelihoods
from heedful.tasks.task import Loss, Part
from heedful.values import Tokens


class Criterion(ABC):
    """A sum over the labels of a batch; its part `nll` is the plain negative log-likelihood."""

    parts: frozenset[str]
    """The names that the parts of its losses have."""

    @abstractmethod
    def loss(self, model: Conditional[Any], batch: PairBatch[Any]) -> Loss:
        """What is minimised."""

    def learned(self, nll: float) -> None:
        """Told after each update the mean of its `nll`, the same in all processes; most need not know."""
        return

    def tensors(self) -> Mapping[str, Tensor]:
        """What `learned` taught it; most stay as they are."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up what `tensors` gave."""
        return


def labelled(
    hidden: Float[Tensor, "B T d"], batch: PairBatch[Any]
) -> tuple[Float[Tensor, "labels d"], Int[Tensor, " labels"]]:
    """What a model made of the places of a batch that have a label, and these labels."""
    real = (batch.labels >= 0).flatten().nonzero().squeeze(1)
    return hidden.flatten(0, 1).index_select(0, real), batch.labels.flatten().index_select(0, real)


@final
class Likelihood(Criterion):
    """Label-smoothed negative log-likelihood of the targets (Szegedy et al. 2016, section 7).

    Args:
        smoothing: probability taken from the right token and spread over the vocabulary.
    """

    parts = frozenset({"nll"})

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing

    def loss(self, model: Conditional[Any], batch: PairBatch[Any]) -> Loss:
        """Of all labels."""
        return self.judge(model(batch.source, batch.target), batch, output=model.output)

    def judge(self, hidden: Float[Tensor, "B T d"], batch: PairBatch[Any], *, output: nn.Linear) -> Loss:
        """The same of what the model made of a batch."""
        taught, labels = labelled(hidden, batch)
        smoothed, nll = cross_entropy(taught, labels, output=output, smoothing=self.smoothing)
        return Loss(smoothed, len(labels), {"nll": Part(nll, len(labels))})


@final
class Decorrelated(Criterion):
    """The likelihood of translations, and a penalty on heads that look alike (see `heedful.tasks.decorrelation`).

    Args:
        likelihood: of the targets.
        weight: of the penalty, per label.
    """

    parts = frozenset({"nll", "decorrelation"})

    def __init__(self, likelihood: Likelihood, *, weight: float) -> None:
        self.likelihood = likelihood
        self.weight = weight

    def loss(self, model: Conditional[Tokens], batch: PairBatch[Tokens]) -> Loss:
        """The sum of both."""
        with watch(model, detach=False) as weights:
            likelihood = self.likelihood.loss(model, batch)
        # padding asks too where everything is visible, and must not count
        asked = {SOURCE: batch.source.positions >= 0, WRITTEN: batch.target.positions >= 0}
        penalty = decorrelation(
            each * asked[place.look.queries][:, None, :, None]
            for name, place in places(model).items()
            for each in weights.get(name, ())
        )
        total = likelihood.total + self.weight * penalty
        told = {**likelihood.parts, "decorrelation": Part(penalty.detach(), likelihood.count)}
        return Loss(total, likelihood.count, told)


@final
class DoublyStochastic(Criterion):
    """Another criterion, and lambda sum_i (1 - sum_t alpha_ti)^2, so that all is looked at (Xu et al. 2015, 4.2.1).

    alpha_ti is what the target's token t looks at slot i with, the mean over heads; each attention to a memory adds its
    own. The part `unread` is the sum of squares, for each target. Slots must be as many in all rows, as in pictures.

    Args:
        other: what is minimised besides.
        weight: lambda.
    """

    def __init__(self, other: Criterion, *, weight: float) -> None:
        self.other = other
        self.weight = weight
        self.parts = other.parts | {"unread"}

    def loss(self, model: Conditional[Any], batch: PairBatch[Any]) -> Loss:
        """The sum of both."""
        with watch(model, detach=False) as seen:
            loss = self.other.loss(model, batch)
        real = (batch.labels >= 0).unsqueeze(-1)
        unread = loss.total.new_zeros(())
        for name, place in places(model).items():
            if place.look.role == "cross" and (calls := seen.get(name)):
                weights = torch.cat([call.mean(1) if call.dim() == 4 else call for call in calls], 1)
                unread = unread + (1 - torch.where(real, weights, 0.0).sum(1)).square().sum()
        told = {**loss.parts, "unread": Part(unread.detach(), len(batch.labels))}
        return Loss(loss.total + self.weight * unread, loss.count, told)

    def learned(self, nll: float) -> None:
        """Passed on."""
        self.other.learned(nll)

    def tensors(self) -> Mapping[str, Tensor]:
        """The other's."""
        return self.other.tensors()

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Passed on."""
        self.other.restore(tensors)


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

    def loss(self, model: Conditional[Any], batch: PairBatch[Any]) -> Loss:
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


def build_criterion(config: WritingTrainingConfig) -> Criterion:
    """What a recipe wants to be minimised."""
    likelihood = Likelihood(config.label_smoothing)
    if (draws := config.reinforce) is not None:
        return Reinforced(likelihood, reward=draws.reward, entropy=draws.entropy, decay=draws.baseline_decay)
    return likelihood
