"""What the losses and gradients of an update add up to, over its batches and over all processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from heedful.tasks.objective import Loss, LossPart
from heedful.training.callbacks import LossSum
from heedful.training.distributed import DistributedContext


class LossAccumulator:
    """Sums of losses and of each of their parts, with counts; the part `nll` is the loss where a loss has none.

    Args:
        parts: names; the same in all processes, whose sums travel in this order.
    """

    def __init__(self, parts: Iterable[str]) -> None:
        self._names = ("", *sorted({"nll", *parts}))
        self._sums = torch.zeros(len(self._names), 2, dtype=torch.float64)

    def add(self, loss: Loss) -> None:
        """One more batch."""
        parts = {"nll": LossPart(loss.total, loss.count), **loss.parts, "": LossPart(loss.total, loss.count)}
        assert parts.keys() <= {*self._names}, f"the task does not announce {sorted(parts.keys() - {*self._names})}"
        for row, name in enumerate(self._names):
            if name in parts:
                part = parts[name]
                self._sums[row] += torch.tensor((float(part.total.detach()), float(part.count)), dtype=torch.float64)

    def all_reduce(self, distributed: DistributedContext) -> None:
        """Adds what all other processes have."""
        global_sums = self._sums.to(distributed.device)
        distributed.all_reduce_([global_sums])
        self._sums = global_sums.cpu()

    @property
    def loss(self) -> LossSum:
        """What is minimised."""
        return self._sums_by_name()[""]

    @property
    def parts(self) -> Mapping[str, LossSum]:
        """Those parts that anything was counted for."""
        return {name: part for name, part in self._sums_by_name().items() if name and part.count}

    def _sums_by_name(self) -> dict[str, LossSum]:
        return {name: LossSum(*row) for name, row in zip(self._names, self._sums.tolist(), strict=True)}


def all_reduce_gradients(parameters: Mapping[str, Tensor], distributed: DistributedContext) -> list[Tensor]:
    """The gradients of those parameters that have one in any process, as sums over all processes.

    A process whose share was empty must send zeros; what no process has a gradient for must get none, as one process
    alone would leave it: a zero would make the optimizer decay and move it.
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
    """Divides summed gradients by the labels, clips them, and returns their norm before clipping."""
    norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(list(gradients))))) / num_labels
    factor = 1 / num_labels
    if max_norm is not None and norm > max_norm:
        factor *= max_norm / norm
    torch._foreach_mul_(list(gradients), factor)
    return norm
