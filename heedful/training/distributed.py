"""Several processes that train one model: each takes its share of every batch, and gradients are summed.

Started by torchrun, which sets the environment; without it there is one process and nothing here does anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor, distributed

from heedful.errors import TrainingError

Result = TypeVar("Result")

_BUCKET = 32 * 2**20
"""Bytes that are summed in one message."""
_PATIENCE = timedelta(days=1)
"""How long processes wait for one that encodes a large corpus or evaluates; connections tell when one has died."""


_LAUNCHED = "TORCHELASTIC_RUN_ID"
"""What torchrun sets; whoever starts processes by hand may leave them alone."""
_SOURCE = re.compile(r"^\[[^]]*\] *")
"""Where in the sources of torch an error comes from, as its messages begin."""


@dataclass(frozen=True)
class World:
    """Which of how many processes this is.

    Attributes:
        rank: number of this process, from 0; process 0 evaluates, saves and reports.
        size: how many there are.
        device: what this process computes on.
        parent: the torchrun that started this one and its peers; None where they were started otherwise.
    """

    rank: int
    size: int
    device: torch.device
    parent: int | None = None

    @property
    def leads(self) -> bool:
        """Whether this process evaluates, saves and reports."""
        return self.rank == 0

    @property
    def orphaned(self) -> bool:
        """Whether the torchrun is gone that was to end this process with its peers.

        Systems give orphans another parent. Nothing tells them of a kill -9, so they must look.
        """
        return self.parent is not None and os.getppid() != self.parent

    def sum_(self, tensors: Iterable[Tensor]) -> None:
        """Replaces each tensor by its sum over all processes, many small ones in one message."""
        if self.size == 1:
            return
        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            with _peers():
                distributed.all_reduce(flat)
            for tensor, summed in zip(bucket, torch.split(flat, [t.numel() for t in bucket]), strict=True):
                tensor.copy_(summed.view_as(tensor))

    def agree(self, numbers: list[float]) -> list[float]:
        """The leading process's numbers, in every process."""
        if self.size == 1:
            return numbers
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        with _peers():
            distributed.broadcast(tensor, 0)
        return [float(number) for number in tensor]

    def lead(self, work: Callable[[], Result]) -> Result | None:
        """Does `work` in the leading process, while the others wait; its result there, None elsewhere.

        Raises:
            TrainingError: in the others, where the work failed; what went wrong is raised in the leading process.
        """
        if not self.leads:
            (done,) = self.agree([0.0])
            if not done:
                raise TrainingError("the leading process could not go on; its own message says why")
            return None
        try:
            result = work()
        except BaseException:
            with suppress(TrainingError):  # this is what went wrong first
                self.agree([0.0])
            raise
        self.agree([1.0])
        return result


def alone(device: torch.device) -> World:
    """One process.

    Raises:
        TrainingError: torchrun has started several, which would all train for themselves.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1:
        raise TrainingError(
            f"torchrun has started {size} processes; let them train together: with world(device) as here, hand over "
            "world=here"
        )
    return World(0, 1, device)


@contextmanager
def world(device: torch.device) -> Iterator[World]:
    """The processes torchrun started, or this one alone; gloo on CPU, NCCL on CUDA."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield World(0, 1, device)
        return
    rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    if device.type == "cuda":
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    parent = os.getppid() if _LAUNCHED in os.environ else None
    with _peers():
        distributed.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            rank=rank,
            world_size=size,
            timeout=_PATIENCE,
            device_id=device if device.type == "cuda" else None,
        )
    try:
        yield World(rank, size, device, parent)
    finally:
        with suppress(RuntimeError):  # of peers that have left already
            distributed.destroy_process_group()


@contextmanager
def _peers() -> Iterator[None]:
    """Around all that needs the other processes."""
    try:
        yield
    except RuntimeError as error:
        reason = re.split(r"\n|\. ", _SOURCE.sub("", str(error).strip()))[0]
        raise TrainingError(
            f"another process of this training is gone ({reason}); its own message, if it left one, says why. The same "
            "command goes on from the last checkpoint"
        ) from error


def _buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    taken = 0
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        if bucket and taken + size > _BUCKET:
            yield bucket
            bucket, taken = [], 0
        bucket.append(tensor)
        taken += size
    if bucket:
        yield bucket
