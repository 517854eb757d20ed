"""Ensembles: several models decoded as one."""

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
    """Abstract base of ways to average the predictions of several models."""

    @abstractmethod
    def __call__(self, logits: Sequence[Float[Tensor, "B T V"]]) -> Float[Tensor, "B T V"]:
        """Return the averaged logits."""


@final
class ProbabilityMean(EnsembleAverage):
    """Arithmetic mean of the probabilities: a token is likely if any model finds it likely."""

    def __call__(self, logits: Sequence[Float[Tensor, "B T V"]]) -> Float[Tensor, "B T V"]:
        """Return log(sum of softmax / number of models)."""
        log_probabilities = torch.stack([upcast_logits(model_logits).log_softmax(-1) for model_logits in logits])
        return log_probabilities.logsumexp(0) - math.log(len(logits))


@final
class LogProbabilityMean(EnsembleAverage):
    """Geometric mean of the probabilities: a token is likely only if no model finds it unlikely."""

    def __call__(self, logits: Sequence[Float[Tensor, "B T V"]]) -> Float[Tensor, "B T V"]:
        """Return the mean of the log-softmax, which is not normalised."""
        return torch.stack([upcast_logits(model_logits).log_softmax(-1) for model_logits in logits]).mean(0)


@final
class Ensemble(Generic[Source]):
    """Engine that predicts the average of its models, which share source, vocabulary and device."""

    def __init__(self, models: Sequence[Engine[Source]], average: EnsembleAverage | None = None) -> None:
        if not models:
            raise RecipeError("ensemble: no models; name at least one")
        self.models = tuple(models)
        self.average = average or ProbabilityMean()

    @property
    def device(self) -> torch.device:
        """Device of all models."""
        return self.models[0].device

    def init_state(self, source: Source) -> tuple[State, ...]:
        """Return the initial states of all models."""
        return tuple(model.init_state(source) for model in self.models)

    def step(self, tokens: Tokens, state: tuple[State, ...]) -> tuple[Float[Tensor, "B T V"], tuple[State, ...]]:
        """Run one step of every model, and average the logits."""
        logits, states = zip(
            *(model.step(tokens, model_state) for model, model_state in zip(self.models, state, strict=True)),
            strict=True,
        )
        sizes = [model_logits.size(-1) for model_logits in logits]
        if len(set(sizes)) > 1:
            raise RecipeError(f"ensemble: vocabularies of {sizes} tokens; all models must share one")
        return self.average(logits), states
