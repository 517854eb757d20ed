"""Keepers for training that has no run folder; that of a run is `heedful.runs.checkpoints.FolderCheckpointSaver`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor, nn

from heedful.errors import TrainingError
from heedful.training.callbacks import CheckpointSaver, TrainingSnapshot, ValidationResult


@final
class NullCheckpointSaver(CheckpointSaver):
    """For training whose model is used at once."""

    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None:
        """Nothing is done."""


@final
class BestWeightsSaver(CheckpointSaver):
    """The weights that were best on the validation set, in the memory of the CPU.

    Attributes:
        step: the update after which they were; None before the first evaluation.
        weights: fp32, by name.
    """

    def __init__(self) -> None:
        self.step: int | None = None
        self.weights: Mapping[str, Tensor] = {}

    def save(self, snapshot: TrainingSnapshot, evaluation: ValidationResult | None) -> None:
        """Copies what is better than all before it."""
        if evaluation is not None and evaluation.improved:
            self.step = snapshot.progress.step
            self.weights = {name: weight.detach().to("cpu", copy=True) for name, weight in snapshot.weights.items()}

    def load_into(self, model: nn.Module) -> None:
        """Gives them to the model, which then is as it was after `step`.

        Raises:
            TrainingError: nothing was kept yet.
        """
        if self.step is None:
            raise TrainingError("nothing was kept yet; train first")
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(self.weights[name])

    def __repr__(self) -> str:
        return "BestWeightsSaver(nothing yet)" if self.step is None else f"BestWeightsSaver(of step {self.step})"
