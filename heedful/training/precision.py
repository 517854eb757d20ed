"""Numeric precision of training: the link between the parameters of the model and the fp32 masters."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from heedful.training.callbacks import TrainingSnapshot
from heedful.training.distributed import DistributedContext, all_reduce_gradients

Result = TypeVar("Result")


class Precision:
    """Link between the parameters that the model computes with and the fp32 masters that the optimizer updates.

    They are the same unless a subclass says otherwise.

    Args:
        model: the model to train.
        frozen: names of frozen parameters, which need no fp32 master because they are stored elsewhere.

    Attributes:
        parameters: of the model, without the frozen ones.
        is_sharded: whether each process has only a part of each parameter, so that all must compute together.
    """

    dtype = torch.float32
    is_sharded: ClassVar[bool] = False

    def __init__(self, model: nn.Module, *, frozen: Collection[str] = ()) -> None:
        all_parameters = dict(model.named_parameters())
        self.parameters: dict[str, Tensor] = {
            name: parameter for name, parameter in all_parameters.items() if name not in frozen
        }
        self._model = model
        self._frozen = [all_parameters[name] for name in frozen]

    @property
    def masters(self) -> dict[str, Tensor]:
        """The fp32 parameters by name; `collect_gradients` sets their gradients."""
        return dict(self.parameters)

    @property
    def trainable(self) -> dict[str, Tensor]:
        """The masters of the parameters that are trained."""
        return {name: master for name, master in self.masters.items() if self.parameters[name].requires_grad}

    def call(self, function: Callable[[nn.Module], Result]) -> Result:
        """Return `function(model)`; all computations with the model are made by this method."""
        return function(self._model)

    def collect_gradients(self) -> None:
        """Add the gradients of the last backward pass to those of the masters, where autograd has not done so."""

    def reduce_gradients(self, distributed: DistributedContext) -> dict[str, Tensor]:
        """Sum the gradients of the masters over all processes, in place; return by name those that exist."""
        return all_reduce_gradients(self.trainable, distributed)

    def measure_norm(self, tensors: Mapping[str, Tensor], distributed: DistributedContext) -> float:
        """Return the norm of all numbers of tensors (masters or their gradients, by name); it is the same in all
        processes.
        """
        return float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(list(tensors.values())))))

    def copy_to_model(self) -> None:
        """Copy the updated masters into the model."""

    def gather_snapshot(self, snapshot: TrainingSnapshot, distributed: DistributedContext) -> TrainingSnapshot:
        """Return the snapshot with whole tensors, for the leading process; it is unchanged if tensors are not split.

        Reading a tensor of the result needs the other processes, which must be in `send_shard` then.
        """
        return snapshot

    def send_shard(self, number: int, *, snapshot: TrainingSnapshot, distributed: DistributedContext) -> None:
        """Send this process's part of a tensor, which the leading process asked for by its number, of the snapshot."""

    def split_snapshot(self, snapshot: TrainingSnapshot) -> TrainingSnapshot:
        """Return the snapshot with this process's part of each tensor; it is unchanged if tensors are not split.

        Raises:
            RunError: a tensor is missing or does not fit.
        """
        return snapshot


class FullPrecision(Precision):
    """fp32 throughout: the masters are the model's own parameters."""


class BF16WithMasters(Precision):
    """bf16 parameters and activations, with fp32 masters and gradient sums (Micikevicius et al. 2018, 3.1).

    Unlike with autocast, nothing is cast in each pass, and the gradients of accumulated batches are summed in fp32.
    bf16 has the range of fp32, so the loss needs no scaling.
    """

    dtype = torch.bfloat16

    def __init__(self, model: nn.Module, *, frozen: Collection[str] = ()) -> None:
        super().__init__(model, frozen=frozen)
        self._masters = {name: p.detach().clone().float() for name, p in self.parameters.items()}
        for parameter in (*self.parameters.values(), *self._frozen):
            parameter.data = parameter.data.to(self.dtype)

    @property
    def masters(self) -> dict[str, Tensor]:
        """The fp32 copies of the parameters, by name."""
        return self._masters

    def collect_gradients(self) -> None:
        """Add the bf16 gradients to the fp32 gradients of the masters."""
        for name, parameter in self.parameters.items():
            if parameter.grad is None:
                continue
            master = self._masters[name]
            if master.grad is None:
                master.grad = parameter.grad.float()
            else:
                master.grad += parameter.grad
            parameter.grad = None

    def copy_to_model(self) -> None:
        """Round the masters to bf16 and copy them into the model."""
        with torch.no_grad():
            torch._foreach_copy_(list(self.parameters.values()), list(self._masters.values()))


_MIN_BF16_WIDTH = 128
"""Width from which on bf16 products save more time on a CPU than their preparation costs (docs/numbers.md).

At width 64 bf16 is neither faster nor slower, with three times the memory.
"""


def is_faster_in_bf16(model: nn.Module, device: torch.device) -> bool:
    """Return whether the model trains faster in bf16 on the device; on a CPU only wide models do."""
    return has_fast_bf16(device) and (device.type != "cpu" or _find_width(model) >= _MIN_BF16_WIDTH)


def _find_width(model: nn.Module) -> int:
    """Return the smaller side of the widest weight matrix."""
    return max((min(parameter.flatten(1).shape) for parameter in model.parameters() if parameter.dim() > 1), default=0)


def has_fast_bf16(device: torch.device) -> bool:
    """Return whether bf16 products are faster than fp32 ones on the device, not merely supported.

    A CPU without AMX or AVX512-BF16 emulates them several times slower than fp32.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "cpu" and platform.machine() in ("x86_64", "AMD64") and _cpu_has_bf16()


def _cpu_has_bf16() -> bool:
    probes: Sequence[str] = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return any(bool(getattr(torch.cpu, probe, lambda: False)()) for probe in probes)
