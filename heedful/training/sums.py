"""What the losses and gradients of an update add up to, over its batches and over all processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from heedful.tasks.task import Loss, Part
from heedful.training.distributed import World
from heedful.training.listeners import Sum


class Tally:
    """Sums of losses and of each of their parts, with counts; the part `nll` is the loss where a loss has none.

    Args:
        parts: names; the same in all processes, whose sums travel in this order.
    """

    def __init__(self, parts: Iterable[str]) -> None:
        self._names = ("", *sorted({"nll", *parts}))
        self._sums = torch.zeros(len(self._names), 2, dtype=torch.float64)

    def add(self, loss: Loss) -> None:
        """One more batch."""
        told = {"nll": Part(loss.total, loss.count), **loss.parts, "": Part(loss.total, loss.count)}
        assert told.keys() <= {*self._names}, f"the task does not announce {sorted(told.keys() - {*self._names})}"
        for row, name in enumerate(self._names):
            if name in told:
                part = told[name]
                self._sums[row] += torch.tensor((float(part.total.detach()), float(part.count)), dtype=torch.float64)

    def gather(self, world: World) -> None:
        """Adds what all other processes have."""
        everywhere = self._sums.to(world.device)
        world.sum_([everywhere])
        self._sums = everywhere.cpu()

    @property
    def loss(self) -> Sum:
        """What is minimised."""
        return self._named()[""]

    @property
    def parts(self) -> Mapping[str, Sum]:
        """Those parts that anything was counted for."""
        return {name: part for name, part in self._named().items() if name and part.count}

    def _named(self) -> dict[str, Sum]:
        return {name: Sum(*row) for name, row in zip(self._names, self._sums.tolist(), strict=True)}


def summed(masters: Mapping[str, Tensor], world: World) -> list[Tensor]:
    """The gradients of those parameters that have one in any process, as sums over all processes.

    A process whose share was empty must send zeros; what no process has a gradient for must get none, as one process
    alone would leave it: a zero would make the optimizer decay and move it.
    """
    every = list(masters.values())
    if world.size > 1:
        reached = torch.tensor([float(master.grad is not None) for master in every], device=world.device)
        world.sum_([reached])
        for master, processes in zip(every, reached.tolist(), strict=True):
            if processes and master.grad is None:
                master.grad = torch.zeros_like(master)
    gradients = [master.grad for master in every if master.grad is not None]
    world.sum_(gradients)
    return gradients


def scaled(gradients: Sequence[Tensor], *, count: float, clip: float | None) -> float:
    """Divides summed gradients by the labels, clips them, and returns their norm before clipping."""
    norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(list(gradients))))) / count
    factor = 1 / count
    if clip is not None and norm > clip:
        factor *= clip / norm
    torch._foreach_mul_(list(gradients), factor)
    return norm
