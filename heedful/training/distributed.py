"""Processes of a training: the sums of losses and gradients over all of them, and the signals that stop them.

Torchrun starts them and sets the environment; without it there is one process, and nothing is exchanged.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar
from uuid import uuid4

import torch
from torch import Tensor, distributed
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from heedful.errors import TrainingError
from heedful.tasks.objective import Loss, LossPart
from heedful.training.callbacks import LossSum

Result = TypeVar("Result")

_BUCKET_BYTES = 32 * 2**20
"""Bytes that are summed in one message."""
_TIMEOUT = timedelta(days=1)
"""How long processes wait for one that encodes a large corpus or evaluates; a lost connection shows that one has
died."""
_FIRST_REQUEST: Final = 2
"""What the leader sends to the others: 0 for a failure, 1 for a success, from 2 on the numbers of requests."""
_POLL_SECONDS: Final = 0.02
"""Seconds between two checks of the store, or of threads."""
_IDLE_POLLS, _MAX_POLLS = 5, 250
"""Number of checks in which threads must be idle, one after the other, and largest number of checks."""
_TORCHRUN_VARIABLE = "TORCHELASTIC_RUN_ID"
"""Environment variable that torchrun sets."""
_SOURCE_PREFIX = re.compile(r"^\[[^]]*\] *")
"""Source location at the beginning of torch's error messages."""


@dataclass(frozen=True)
class DistributedContext:
    """Rank of this process, and number of processes.

    Attributes:
        rank: number of this process, from 0; process 0 saves and reports, and evaluates unless parameters are split.
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
        """Whether this process saves and reports, and evaluates unless parameters are split."""
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

    def broadcast_(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by that of the leading process, in place."""
        for tensor in tensors if self.size > 1 else ():
            with _convert_peer_errors():
                distributed.broadcast(tensor, 0)

    def broadcast(self, numbers: list[float]) -> list[float]:
        """Return the numbers of the leading process in every process; each must give a list of the same length."""
        if self.size == 1:
            return numbers
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        with _convert_peer_errors():
            distributed.broadcast(tensor, 0)
        return [float(number) for number in tensor]

    def run_on_leader(
        self, work: Callable[[], Result], *, serve: Callable[[int], None] = lambda _: None
    ) -> Result | None:
        """Run `work` in the leading process while the others wait; return its result there, None elsewhere.

        If the work calls `request_service(number)`, the others call `serve(number)`, so that all of them can exchange
        tensors in the middle of the work.

        Raises:
            TrainingError: in the other processes, if the work failed; the leader raises the original error.
        """
        if not self.is_leader:
            while (answer := round(self.broadcast([0.0])[0])) >= _FIRST_REQUEST:
                serve(answer - _FIRST_REQUEST)
            if not answer:
                raise TrainingError("the leading process could not continue; its own message says why")
            return None
        try:
            result = work()
        except BaseException:
            with suppress(TrainingError):  # the original error is raised below
                self.broadcast([0.0])
            raise
        self.broadcast([1.0])
        return result

    def request_service(self, number: int) -> None:
        """Let the other processes, which wait in `run_on_leader`, call `serve(number)`; only the leader may do it."""
        self.broadcast([float(_FIRST_REQUEST + number)])


def single_process(device: torch.device) -> DistributedContext:
    """Return the context of a single process that computes on `device`.

    Raises:
        TrainingError: torchrun has started several processes, each of which would train alone.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1:
        raise TrainingError(
            f"torchrun has started {size} processes; let them train together: with init_distributed(device) as "
            "context, pass distributed=context"
        )
    return DistributedContext(0, 1, device)


@contextmanager
def init_distributed(device: torch.device) -> Iterator[DistributedContext]:
    """Join the processes that torchrun started inside the block, or run as one process on `device`; processes exchange
    tensors by gloo on CPU and NCCL on CUDA.
    """
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
        store, _, _ = next(rendezvous("env://", rank, size, timeout=_TIMEOUT))
        distributed.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=PrefixStore(agree_on_prefix(store, rank=rank, size=size), store),
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
        _wait_for_gloo_threads()


def _wait_for_gloo_threads() -> None:
    """Wait until the threads of gloo are idle, at most for five seconds.

    After a collective operation they free tensors, for which they need the GIL. A thread that asks for it while the
    interpreter shuts down would abort the process.
    """
    num_idle_polls = 0
    for _ in range(_MAX_POLLS):
        time.sleep(_POLL_SECONDS)  # and release the GIL
        num_idle_polls = 0 if "R" in _list_thread_states("pt_gloo_runloop") else num_idle_polls + 1
        if num_idle_polls == _IDLE_POLLS:
            break


def _list_thread_states(name: str) -> list[str]:
    """Return the states of the threads of this process with a name: "R" is running, "S" is asleep; none if the system
    does not tell.
    """
    states = []
    for folder in Path("/proc/self/task").glob("*"):
        with suppress(OSError):  # of a thread that has ended
            if (folder / "comm").read_text().strip() == name:
                states.append((folder / "stat").read_text().rpartition(")")[2].split()[0])
    return states


def agree_on_prefix(store: Store, *, rank: int, size: int) -> str:
    """Return a new prefix for the keys of a process group, the same in all processes, which must all call this.

    Torchrun keeps the store when it starts processes again. With fixed keys, they would find the addresses of processes
    that have ended. Each process greets the first one with a new number, and accepts only an answer with this number.

    Args:
        store: of all processes.
        rank: of this process.
        size: number of processes.
    """
    if rank:
        greeting = uuid4().hex
        store.set(f"greeting-{rank}", greeting)
        while not (answer := _read_key(store, f"answer-{rank}")).startswith(greeting):
            time.sleep(_POLL_SECONDS)
        prefix = answer.removeprefix(greeting)
        store.set(f"arrival-{rank}", prefix)
        return prefix
    prefix, missing_ranks = uuid4().hex, list(range(1, size))
    while missing_ranks:
        for other in missing_ranks:
            store.set(f"answer-{other}", _read_key(store, f"greeting-{other}") + prefix)
        time.sleep(_POLL_SECONDS)
        missing_ranks = [other for other in missing_ranks if _read_key(store, f"arrival-{other}") != prefix]
    return prefix


def _read_key(store: Store, key: str) -> str:
    """Return the value of a key of the store; an empty text if it has none yet."""
    return store.get(key).decode() if store.check([key]) else ""


@contextmanager
def _convert_peer_errors() -> Iterator[None]:
    """Convert a RuntimeError of an exchange between processes into a `TrainingError`; most come from a lost process."""
    try:
        yield
    except RuntimeError as error:
        reason = re.split(r"\n|\. ", _SOURCE_PREFIX.sub("", str(error).strip()))[0]
        raise TrainingError(
            f"another process of this training has ended ({reason}); its own message, if there is one, gives the "
            "cause. The same command continues from the last checkpoint"
        ) from error


_PEER_ERROR: Final = re.compile(r"gloo|NCCL|ProcessGroup|by peer|pair\.cc", re.IGNORECASE)
"""What messages of PyTorch about a lost process contain."""


@contextmanager
def convert_lost_peers() -> Iterator[None]:
    """Convert the RuntimeError of a lost process into a `TrainingError`, around a computation in which processes
    exchange tensors; leave other errors, such as that of a full memory.
    """
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, distributed.DistError) and not _PEER_ERROR.search(str(error)):
            raise
        with _convert_peer_errors():
            raise


def _iter_buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Yield the tensors in lists of at most `_BUCKET_BYTES` bytes each, in order; a larger tensor is alone."""
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
        """Add the sums of all other processes of `distributed`."""
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


def all_reduce_gradients(parameters: Mapping[str, Tensor], distributed: DistributedContext) -> dict[str, Tensor]:
    """Sum the gradients over all processes of `distributed`, in place, and return by name those of parameters with a
    gradient in any process.

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
    gradients = {name: parameter.grad for name, parameter in parameters.items() if parameter.grad is not None}
    distributed.all_reduce_(gradients.values())
    return gradients


def normalize_and_clip(
    gradients: Iterable[Tensor], *, norm_of_sum: float, num_labels: float, max_norm: float | None
) -> float:
    """Divide summed gradients by the number of labels, in place, scale them down to the norm `max_norm` if they exceed
    it, and return their norm before that.

    Args:
        gradients: sums over labels.
        norm_of_sum: norm of all numbers in them, in all processes if these have parts of the gradients.
        num_labels: number of labels.
        max_norm: largest norm; None means no limit.
    """
    norm = norm_of_sum / num_labels
    factor = 1 / num_labels
    if max_norm is not None and norm > max_norm:
        factor *= max_norm / norm
    torch._foreach_mul_(list(gradients), factor)
    return norm


class StopSignal:
    """The signal that was received; 0 while there was none."""

    def __init__(self) -> None:
        self.signal = 0

    def handle_signal(self, number: int, _frame: FrameType | None) -> None:
        """Record the first signal; a second SIGINT raises KeyboardInterrupt."""
        if self.signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def catch_stop_signals() -> Iterator[StopSignal]:
    """Catch SIGINT and SIGTERM inside the block; outside the main thread nothing is caught."""
    stop_signal = StopSignal()
    if threading.current_thread() is not threading.main_thread():
        yield stop_signal
        return
    old_handlers = {
        number: signal.signal(number, stop_signal.handle_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop_signal
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
