"""Data-parallel training: each process takes its share of every batch, and gradients are summed.

Started by torchrun, which sets the environment; without it there is one process and these functions do nothing.
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

_BUCKET_BYTES = 32 * 2**20
"""Bytes that are summed in one message."""
_TIMEOUT = timedelta(days=1)
"""How long processes wait for one that encodes a large corpus or evaluates; a lost connection shows that one has
died."""


_TORCHRUN_VARIABLE = "TORCHELASTIC_RUN_ID"
"""Environment variable that torchrun sets."""
_SOURCE_PREFIX = re.compile(r"^\[[^]]*\] *")
"""Source location at the beginning of torch's error messages."""


@dataclass(frozen=True)
class DistributedContext:
    """Rank of this process, and number of processes.

    Attributes:
        rank: number of this process, from 0; process 0 evaluates, saves and reports.
        size: number of processes.
        device: device of this process.
        parent: process id of the torchrun that started this process; None if it was started otherwise.
    """

    rank: int
    size: int
    device: torch.device
    parent: int | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this process evaluates, saves and reports."""
        return self.rank == 0

    @property
    def is_orphaned(self) -> bool:
        """Whether the torchrun that should end this process has died.

        The system gives orphans another parent. No signal reports a kill -9 of torchrun, so processes must check.
        """
        return self.parent is not None and os.getppid() != self.parent

    def all_reduce_(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over all processes, in place; small tensors share messages."""
        if self.size == 1:
            return
        for bucket in _iter_buckets(tensors):
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            with _convert_peer_errors():
                distributed.all_reduce(flat)
            for tensor, sum_part in zip(bucket, torch.split(flat, [t.numel() for t in bucket]), strict=True):
                tensor.copy_(sum_part.view_as(tensor))

    def broadcast(self, numbers: list[float]) -> list[float]:
        """Return the leader's numbers in every process."""
        if self.size == 1:
            return numbers
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        with _convert_peer_errors():
            distributed.broadcast(tensor, 0)
        return [float(number) for number in tensor]

    def run_on_leader(self, work: Callable[[], Result]) -> Result | None:
        """Run `work` in the leading process while the others wait; return its result there, None elsewhere.

        Raises:
            TrainingError: in the other processes, if the work failed; the leader raises the original error.
        """
        if not self.is_leader:
            (succeeded,) = self.broadcast([0.0])
            if not succeeded:
                raise TrainingError("the leading process could not continue; its own message says why")
            return None
        try:
            result = work()
        except BaseException:
            with suppress(TrainingError):  # this is what went wrong first
                self.broadcast([0.0])
            raise
        self.broadcast([1.0])
        return result


def single_process(device: torch.device) -> DistributedContext:
    """Return the context of a single process.

    Raises:
        TrainingError: torchrun has started several processes, each of which would train alone.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1:
        raise TrainingError(
            f"torchrun has started {size} processes; let them train together: with world(device) as here, pass "
            "world=here"
        )
    return DistributedContext(0, 1, device)


@contextmanager
def init_distributed(device: torch.device) -> Iterator[DistributedContext]:
    """Join the processes that torchrun started inside the block, or run as one process; gloo on CPU, NCCL on CUDA."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield DistributedContext(0, 1, device)
        return
    rank, local_rank = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    if device.type == "cuda":
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    parent = os.getppid() if _TORCHRUN_VARIABLE in os.environ else None
    with _convert_peer_errors():
        distributed.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            rank=rank,
            world_size=size,
            timeout=_TIMEOUT,
            device_id=device if device.type == "cuda" else None,
        )
    try:
        yield DistributedContext(rank, size, device, parent)
    finally:
        with suppress(RuntimeError):  # of peers that have left already
            distributed.destroy_process_group()


@contextmanager
def _convert_peer_errors() -> Iterator[None]:
    """Convert the RuntimeError of a lost process into a `TrainingError`."""
    try:
        yield
    except RuntimeError as error:
        reason = re.split(r"\n|\. ", _SOURCE_PREFIX.sub("", str(error).strip()))[0]
        raise TrainingError(
            f"another process of this training is gone ({reason}); its own message, if there is one, says why. The "
            "same command continues from the last checkpoint"
        ) from error


def _iter_buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Group tensors into buckets of limited size."""
    bucket: list[Tensor] = []
    num_bytes = 0
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        if bucket and num_bytes + size > _BUCKET_BYTES:
            yield bucket
            bucket, num_bytes = [], 0
        bucket.append(tensor)
        num_bytes += size
    if bucket:
        yield bucket
