"""Keepers for training that has no run folder; that of a run is `heedful.runs.checkpoints.Checkpoints`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor, nn

from heedful.errors import TrainingError
from heedful.training.listeners import Evaluation, Keeper, Snapshot


@final
class KeepNothing(Keeper):
    """For training whose model is used at once."""

    def save(self, snapshot: Snapshot, evaluation: Evaluation | None) -> None:
        """Nothing is done."""


@final
class KeepBest(Keeper):
    """The weights that were best on the validation set, in the memory of the CPU.

    Attributes:
        step: the update after which they were; None before the first evaluation.
        weights: fp32, by name.
    """

    def __init__(self) -> None:
        self.step: int | None = None
        self.weights: Mapping[str, Tensor] = {}

    def save(self, snapshot: Snapshot, evaluation: Evaluation | None) -> None:
        """Copies what is better than all before it."""
        if evaluation is not None and evaluation.improved:
            self.step = snapshot.progress.step
            self.weights = {name: weight.detach().to("cpu", copy=True) for name, weight in snapshot.weights.items()}

    def into(self, model: nn.Module) -> None:
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
        return "KeepBest(nothing yet)" if self.step is None else f"KeepBest(of step {self.step})"
