"""Checkpoint savers for training without a run folder, and the check of tensors that a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor, nn

from heedful.errors import RunError, TrainingError
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


_REMEDY = "restore it from a copy or train again"


def require_same_tensors(
    tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], *, location: str, prefix: str = ""
) -> None:
    """Raise unless `tensors` has the same names, shapes and dtypes as `expected`.

    Kernels rely on it: a moment of another shape than its parameter would be written beyond its end.

    Args:
        tensors: the tensors that were read.
        expected: the tensors that they are for.
        location: the file, for messages.
        prefix: of the names in that file.

    Raises:
        RunError: names the file, the tensor, and both shapes and dtypes.
    """
    for name in expected:
        if name not in tensors:
            raise RunError(f"{location}: has no {prefix}{name}, which this run needs; {_REMEDY}")
    for name, tensor in tensors.items():
        if name not in expected:
            raise RunError(f"{location}: {prefix}{name} is not part of this run; {_REMEDY}")
        if (tensor.shape, tensor.dtype) != (expected[name].shape, expected[name].dtype):
            raise RunError(
                f"{location}: {prefix}{name} is {_describe_tensor(tensor)}, this run needs "
                f"{_describe_tensor(expected[name])}; {_REMEDY}"
            )


def _describe_tensor(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
