"""Sums of losses and gradients of one update, over its batches and over all processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from heedful.tasks.objective import Loss, LossPart
from heedful.training.callbacks import LossSum
from heedful.training.distributed import DistributedContext


class LossAccumulator:
    """Sums and label counts of the losses of an update, in total and for each named part.

    Where a loss has no part `nll`, the loss itself is used for it.

    Args:
        parts: names of the parts; the same in all processes, whose sums are exchanged in this order.
    """

    def __init__(self, parts: Iterable[str]) -> None:
        self._names = ("", *sorted({"nll", *parts}))
        self._sums = torch.zeros(len(self._names), 2, dtype=torch.float64)

    def add(self, loss: Loss) -> None:
        """Add the loss of one batch."""
        parts = {"nll": LossPart(loss.total, loss.count), **loss.parts, "": LossPart(loss.total, loss.count)}
        assert parts.keys() <= {*self._names}, f"the task does not announce {sorted(parts.keys() - {*self._names})}"
        for row, name in enumerate(self._names):
            if name in parts:
                part = parts[name]
                self._sums[row] += torch.tensor((float(part.total.detach()), float(part.count)), dtype=torch.float64)

    def all_reduce(self, distributed: DistributedContext) -> None:
        """Add the sums of all other processes."""
        global_sums = self._sums.to(distributed.device)
        distributed.all_reduce_([global_sums])
        self._sums = global_sums.cpu()

    @property
    def loss(self) -> LossSum:
        """The total loss and its label count."""
        return self._sums_by_name()[""]

    @property
    def parts(self) -> Mapping[str, LossSum]:
        """The parts of the loss that have labels."""
        return {name: part for name, part in self._sums_by_name().items() if name and part.count}

    def _sums_by_name(self) -> dict[str, LossSum]:
        """Return the sums as `LossSum` by name; the total has the empty name."""
        return {name: LossSum(*row) for name, row in zip(self._names, self._sums.tolist(), strict=True)}


def all_reduce_gradients(parameters: Mapping[str, Tensor], distributed: DistributedContext) -> list[Tensor]:
    """Sum the gradients over all processes, and return those of parameters with a gradient in any process.

    A process without examples sends zeros. A parameter without a gradient in any process gets none, as with one
    process: with a zero gradient the optimizer would decay and move it.
    """
    all_parameters = list(parameters.values())
    if distributed.size > 1:
        has_gradient = torch.tensor(
            [float(parameter.grad is not None) for parameter in all_parameters], device=distributed.device
        )
        distributed.all_reduce_([has_gradient])
        for parameter, num_processes in zip(all_parameters, has_gradient.tolist(), strict=True):
            if num_processes and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
    gradients = [parameter.grad for parameter in all_parameters if parameter.grad is not None]
    distributed.all_reduce_(gradients)
    return gradients


def normalize_and_clip(gradients: Sequence[Tensor], *, num_labels: float, max_norm: float | None) -> float:
    """Divide summed gradients by the number of labels, clip them, and return their norm before clipping."""
    norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(list(gradients))))) / num_labels
    factor = 1 / num_labels
    if max_norm is not None and norm > max_norm:
        factor *= max_norm / norm
    torch._foreach_mul_(list(gradients), factor)
    return norm
