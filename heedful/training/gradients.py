"""Gradients of an update: summed over processes, divided by the labels, and not too long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from heedful.training.distributed import World


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
