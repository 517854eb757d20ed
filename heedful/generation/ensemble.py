"""Several models that answer as one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, final

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation.scoring import upcast_logits
from heedful.models.interface import Engine, Source, State
from heedful.tensors import Tokens


class EnsembleAverage(ABC):
    """How the predictions of several models become one."""

    @abstractmethod
    def __call__(self, logits: Sequence[Float[Tensor, "B T V"]]) -> Float[Tensor, "B T V"]:
        """Logits of the average from those of each model."""


@final
class ProbabilityMean(EnsembleAverage):
    """The arithmetic mean of the probabilities: a token is likely if any model finds it so."""

    def __call__(self, logits: Sequence[Float[Tensor, "B T V"]]) -> Float[Tensor, "B T V"]:
        """log(sum of softmax / models)."""
        log_probabilities = torch.stack([upcast_logits(model_logits).log_softmax(-1) for model_logits in logits])
        return log_probabilities.logsumexp(0) - math.log(len(logits))


@final
class LogProbabilityMean(EnsembleAverage):
    """The geometric mean of the probabilities: a token is likely if no model finds it unlikely."""

    def __call__(self, logits: Sequence[Float[Tensor, "B T V"]]) -> Float[Tensor, "B T V"]:
        """The mean of the log-softmax; whoever reads them as logits normalises it."""
        return torch.stack([upcast_logits(model_logits).log_softmax(-1) for model_logits in logits]).mean(0)


@final
class Ensemble(Generic[Source]):
    """An engine that predicts the average of its members, which share source, vocabulary and device."""

    def __init__(self, models: Sequence[Engine[Source]], average: EnsembleAverage | None = None) -> None:
        if not models:
            raise RecipeError("ensemble: no models; name at least one")
        self.models = tuple(models)
        self.average = average or ProbabilityMean()

    @property
    def device(self) -> torch.device:
        """That of all members."""
        return self.models[0].device

    def init_state(self, source: Source) -> tuple[State, ...]:
        """The states of all members."""
        return tuple(model.init_state(source) for model in self.models)

    def step(self, tokens: Tokens, state: tuple[State, ...]) -> tuple[Float[Tensor, "B T V"], tuple[State, ...]]:
        """One step of every member."""
        logits, states = zip(
            *(model.step(tokens, model_state) for model, model_state in zip(self.models, state, strict=True)),
            strict=True,
        )
        sizes = [model_logits.size(-1) for model_logits in logits]
        if len(set(sizes)) > 1:
            raise RecipeError(f"ensemble: vocabularies of {sizes} tokens; all models must share one")
        return self.average(logits), states
