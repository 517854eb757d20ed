"""What training of a translation model minimises: the likelihood, and what may stand beside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import final

from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.probe import SOURCE, WRITTEN
from heedful.data.batches import PairBatch
from heedful.inspection.capture import places
from heedful.inspection.watch import watch
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.tasks.decorrelation import decorrelation
from heedful.tasks.likelihood import cross_entropy
from heedful.tasks.task import Loss, Part
from heedful.values import Tokens


class Criterion(ABC):
    """A sum over the labels of a batch; its part `nll` is the plain negative log-likelihood."""

    parts: frozenset[str]
    """The names that the parts of its losses have."""

    @abstractmethod
    def loss(self, model: SequenceToSequence[Tokens], batch: PairBatch) -> Loss:
        """What is minimised."""

    @abstractmethod
    def learned(self, nll: float) -> None:
        """Told after each update the mean of its `nll`, the same in all processes."""

    @abstractmethod
    def tensors(self) -> Mapping[str, Tensor]:
        """What `learned` taught it."""

    @abstractmethod
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up what `tensors` gave."""


class Untaught(Criterion):
    """A criterion that stays as it is; abstract."""

    @final
    def learned(self, nll: float) -> None:
        """Nothing."""

    @final
    def tensors(self) -> Mapping[str, Tensor]:
        """Nothing."""
        return {}

    @final
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Nothing."""


@final
class Likelihood(Untaught):
    """Label-smoothed negative log-likelihood of the targets (Szegedy et al. 2016, section 7).

    Args:
        smoothing: probability taken from the right token and spread over the vocabulary.
    """

    parts = frozenset({"nll"})

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing

    def loss(self, model: SequenceToSequence[Tokens], batch: PairBatch) -> Loss:
        """Of all labels."""
        return self.judge(model(batch.source, batch.target), batch, output=model.output)

    def judge(self, hidden: Float[Tensor, "B T d"], batch: PairBatch, *, output: nn.Linear) -> Loss:
        """The same of what the model made of a batch."""
        real = (batch.labels >= 0).flatten().nonzero().squeeze(1)
        smoothed, nll = cross_entropy(
            hidden.flatten(0, 1).index_select(0, real),
            batch.labels.flatten().index_select(0, real),
            output=output,
            smoothing=self.smoothing,
        )
        return Loss(smoothed, len(real), {"nll": Part(nll, len(real))})


@final
class Decorrelated(Untaught):
    """The likelihood, and a penalty on heads that look alike (see `heedful.tasks.decorrelation`).

    Args:
        likelihood: of the targets.
        weight: of the penalty, per label.
    """

    parts = frozenset({"nll", "decorrelation"})

    def __init__(self, likelihood: Likelihood, *, weight: float) -> None:
        self.likelihood = likelihood
        self.weight = weight

    def loss(self, model: SequenceToSequence[Tokens], batch: PairBatch) -> Loss:
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
