"""Checkpoint savers for training without a run folder; runs use `heedful.runs.checkpoints.Checkpoints`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor, nn

from heedful.errors import TrainingError
from heedful.training.callbacks import CheckpointSaver, TrainingSnapshot, ValidationResult


@final
class NullCheckpointSaver(CheckpointSaver):
    """Checkpoint saver that stores nothing, for models that are used at once."""

    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None:
        """Do nothing."""


@final
class BestWeightsSaver(CheckpointSaver):
    """Checkpoint saver that keeps the best weights on the validation set in CPU memory.

    Attributes:
        step: the update after which they were measured; None before the first evaluation.
        weights: fp32, by name.
    """

    def __init__(self) -> None:
        self.step: int | None = None
        self.weights: Mapping[str, Tensor] = {}

    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None:
        """Copy the weights if the evaluation is the best so far."""
        if evaluation is not None and evaluation.improved:
            self.step = snapshot.progress.step
            self.weights = {name: weight.detach().to("cpu", copy=True) for name, weight in snapshot.weights.items()}

    def load_into(self, model: nn.Module) -> None:
        """Copy the best weights into the model.

        Raises:
            TrainingError: nothing was saved yet.
        """
        if self.step is None:
            raise TrainingError("nothing was kept yet; train first")
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(self.weights[name])

    def __repr__(self) -> str:
        return "BestWeightsSaver(nothing yet)" if self.step is None else f"BestWeightsSaver(of step {self.step})"
