"""Parameters, gradients and optimizer states that are split over processes, by PyTorch's `fully_shard` (FSDP2)."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar, final

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.fsdp._fully_shard import _fsdp_state
from torch.distributed.tensor import DTensor, distribute_tensor

from heedful.lazy_tensors import LazyTensors, build_templates
from heedful.tensors import swap_parameter_data
from heedful.training.callbacks import TrainingSnapshot, require_same_tensors
from heedful.training.distributed import DistributedContext, all_reduce_gradients, convert_lost_peers
from heedful.training.precision import Precision

Result = TypeVar("Result")

_UNSPLIT_PARTS: Final = ("step",)
"""Parts of an optimizer's state that belong to a whole parameter."""


@final
class _RootModule(nn.Module):
    """Module around a model whose forward method calls any function with the model.

    FSDP gathers parameters when forward methods begin and frees them when these end; objectives call several methods
    of a model. So all parameters outside the layers are gathered around the whole computation.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: Callable[[nn.Module], Any]) -> Any:
        """Return `function(model)`."""
        return function(self.model)


@final
class ShardedPrecision(Precision):
    """fp32 masters, gradients and optimizer states of which each process holds an equal part (ZeRO stage 3, Rajbhandari
    et al. 2020; FSDP, Zhao et al. 2023).

    The parameters of `layers` are gathered layer by layer; all others are gathered for the whole update. Gradients are
    summed in fp32. Each number of a matrix belongs to the process that has its row, so the optimizer must treat each
    number by itself. All processes must call the layers equally often, and compute gradients of the same parameters.

    Args:
        model: the model to train. All processes get the weights and buffers of the leading process; in the others,
            parameters may be without memory (`init_empty_weights`). They become `DTensor`s on the device of
            `distributed`.
        distributed: the process group.
        layers: modules of the model. The parameters of each are gathered while its `forward` or `init_state` runs, and
            again for its backward pass. Layers that share parameters are gathered like the rest of the model.
        compute_dtype: data type of the gathered parameters, fp32 or bf16.
        offload: whether masters, gradients and optimizer states of a GPU are in CPU memory.
        frozen: see `Precision`.

    Attributes:
        parameters: this process's parts of the parameters, without the frozen ones.
    """

    is_sharded = True

    def __init__(
        self,
        model: nn.Module,
        distributed: DistributedContext,
        *,
        layers: Collection[nn.Module] = (),
        compute_dtype: torch.dtype = torch.float32,
        offload: bool = False,
        frozen: Collection[str] = (),
    ) -> None:
        self.dtype = compute_dtype
        # FSDP cannot split scalars, which every process holds
        replicated = {name for name, parameter in model.named_parameters() if parameter.dim() == 0}
        root = _shard_modules(model, distributed, layers=layers, compute_dtype=compute_dtype, offload=offload)
        assert isinstance(root, FSDPModule)
        self._forward, self._reshard = root, root.reshard
        super().__init__(model, frozen=frozen)
        self._split_parameters = {
            name: parameter for name, parameter in self.parameters.items() if name not in replicated
        }
        self._templates = build_templates({name: parameter.detach() for name, parameter in self.parameters.items()})
        self.parameters |= {
            name: _get_local(parameter).detach().requires_grad_(parameter.requires_grad)
            for name, parameter in self._split_parameters.items()
        }

    def call(self, function: Callable[[nn.Module], Result]) -> Result:
        """Return `function(model)`, inside which the parameters are whole; all processes must call it together."""
        with warnings.catch_warnings():
            # views are returned by layers, and nothing is changed in place while gradients are recorded
            warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
            try:
                with convert_lost_peers():
                    result: Result = self._forward(function)
            finally:
                if not torch.is_grad_enabled():  # else the backward pass needs them, and then frees them
                    self._reshard()
        return result

    def collect_gradients(self) -> None:
        """Add this process's parts of the gradients to those of the masters."""
        for name, parameter in self._split_parameters.items():
            if parameter.grad is None:
                continue
            gradient, master = _get_local(parameter.grad), self.parameters[name]
            master.grad = gradient if master.grad is None else master.grad + gradient
            parameter.grad = None

    def reduce_gradients(self, distributed: DistributedContext) -> dict[str, Tensor]:
        """Return the gradients, which were summed in the backward pass; sum those of scalars over all processes."""
        trainable = self.trainable
        scalars = all_reduce_gradients(
            {n: p for n, p in trainable.items() if n not in self._split_parameters}, distributed
        )
        return {
            name: p.grad for name, p in trainable.items() if name in self._split_parameters and p.grad is not None
        } | scalars

    def measure_norm(self, tensors: Mapping[str, Tensor], distributed: DistributedContext) -> float:
        """Return the norm of all numbers of tensors in all processes; scalars count once."""
        squares = torch.zeros((), dtype=torch.float64, device=distributed.device)
        for name, tensor in tensors.items():
            if name in self._split_parameters or distributed.is_leader:
                squares += torch.linalg.vector_norm(tensor, dtype=torch.float32).to(squares).square()
        distributed.all_reduce_([squares])
        return math.sqrt(float(squares)) if math.isfinite(float(squares)) else float(squares)

    def gather_snapshot(self, snapshot: TrainingSnapshot, distributed: DistributedContext) -> TrainingSnapshot:
        """Return the snapshot with lazy tensors, which are gathered in the leading process when they are read."""
        weights, training = (
            _GatheredTensors(self, tensors, distributed=distributed, offset=offset)
            for tensors, offset in ((snapshot.weights, 0), (snapshot.training, len(snapshot.weights)))
        )
        return replace(snapshot, weights=weights, training=training)

    def send_shard(self, number: int, *, snapshot: TrainingSnapshot, distributed: DistributedContext) -> None:
        """Send this process's part of the tensor with this number among the weights and training tensors."""
        name, tensor = [*snapshot.weights.items(), *snapshot.training.items()][number]
        self.gather_tensor(name, tensor, distributed)

    def gather_tensor(self, name: str, tensor: Tensor, distributed: DistributedContext) -> Tensor:
        """Gather a whole tensor of a snapshot from the parts of all processes, which must all call this.

        Args:
            name: of the tensor, as in a snapshot.
            tensor: the part of this process.
            distributed: the process group.
        """
        parameter = self._find_parameter(name)
        if parameter is None:
            return tensor
        parts = DTensor.from_local(
            tensor.detach().to(distributed.device),
            parameter.device_mesh,
            parameter.placements,
            run_check=False,
            shape=parameter.shape,
            stride=parameter.stride(),
        )
        with convert_lost_peers():
            whole: Tensor = parts.full_tensor()
        return whole

    def split_snapshot(self, snapshot: TrainingSnapshot) -> TrainingSnapshot:
        """Return the snapshot with this process's part of each tensor; whole tensors are read one at a time."""
        weights_file, training_file = snapshot.file_names
        require_same_tensors(build_templates(snapshot.weights), self._templates, location=weights_file)
        templates = build_templates(snapshot.training)
        expected = {name: self.build_template(name, template) for name, template in templates.items()}
        require_same_tensors(templates, expected, location=training_file)
        return replace(
            snapshot,
            weights={name: self._split_tensor(name, tensor) for name, tensor in snapshot.weights.items()},
            training={name: self._split_tensor(name, tensor) for name, tensor in snapshot.training.items()},
        )

    def build_template(self, name: str, tensor: Tensor) -> Tensor:
        """Return a tensor without memory with the shape of the whole tensor of a snapshot; `tensor` is a part of it."""
        parameter = self._find_parameter(name)
        shape = tensor.shape if parameter is None else parameter.shape
        return torch.empty(shape, dtype=tensor.dtype, device="meta")

    def _split_tensor(self, name: str, tensor: Tensor) -> Tensor:
        """Return this process's part of a whole tensor of a snapshot, in memory of its own."""
        parameter = self._find_parameter(name)
        if parameter is None:
            return tensor.clone()
        device = parameter.device_mesh.device_type
        parts = distribute_tensor(tensor.to(device), parameter.device_mesh, parameter.placements, src_data_rank=None)
        return _get_local(parts).detach().to(_get_local(parameter).device, copy=True)

    def _find_parameter(self, name: str) -> DTensor | None:
        """Return the parameter that a tensor of a snapshot belongs to and is split like: `PARAMETER`,
        `master.PARAMETER` or `OPTIMIZER.PARAMETER.PART`; None if the tensor is not split.
        """
        candidates = [name, name.partition(".")[2]]
        if not name.endswith(tuple(f".{part}" for part in _UNSPLIT_PARTS)):
            candidates.append(name.partition(".")[2].rpartition(".")[0])
        parameter = next(
            (self._split_parameters[candidate] for candidate in candidates if candidate in self._split_parameters), None
        )
        assert parameter is None or isinstance(parameter, DTensor)
        return parameter


@final
class _GatheredTensors(LazyTensors):
    """Whole tensors of a snapshot, each of which the leading process gathers when it is read.

    Args:
        precision: knows how tensors are split.
        parts: the parts of this process.
        distributed: the process group.
        offset: number of the first tensor in requests to the other processes.
    """

    def __init__(
        self, precision: ShardedPrecision, parts: Mapping[str, Tensor], *, distributed: DistributedContext, offset: int
    ) -> None:
        super().__init__({name: precision.build_template(name, part) for name, part in parts.items()})
        self._precision = precision
        self._parts = parts
        self._distributed = distributed
        self._numbers = {name: offset + number for number, name in enumerate(parts)}

    def __getitem__(self, name: str, /) -> Tensor:
        self._distributed.request_service(self._numbers[name])
        return self._precision.gather_tensor(name, self._parts[name], self._distributed)


def _shard_modules(
    model: nn.Module,
    context: DistributedContext,
    *,
    layers: Collection[nn.Module],
    compute_dtype: torch.dtype,
    offload: bool,
) -> nn.Module:
    """Split the parameters of a model over the processes of `context`, each layer by itself; return the root module.
    Gradients are summed, not averaged. The other arguments are those of `ShardedPrecision`.
    """
    device = context.device
    options: dict[str, Any] = {
        "mesh": init_device_mesh(device.type, (context.size,)),
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=None if compute_dtype is torch.float32 else compute_dtype,
            reduce_dtype=torch.float32,
            cast_forward_inputs=False,
        ),
        "offload_policy": CPUOffloadPolicy() if offload and device.type != "cpu" else OffloadPolicy(),
        "ignored_params": {parameter for parameter in model.parameters() if parameter.dim() == 0},
    }
    # layer by layer, so that no process but the leading one ever holds the whole model
    received: set[int] = set()
    for layer in _iter_unshared_layers(model, layers):
        _broadcast_weights(layer, context, skip_ids=received)
        fully_shard(layer, reshard_after_forward=True, **options)
        register_fsdp_forward_method(layer, "init_state")
        received |= {id(parameter) for parameter in layer.parameters()}
    _broadcast_weights(model, context, skip_ids=received)
    root = _RootModule(model)
    fully_shard(root, **options)
    for module in root.modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)
            module.set_gradient_divide_factor(1.0)
    return root


def _broadcast_weights(module: nn.Module, context: DistributedContext, *, skip_ids: Collection[int]) -> None:
    """Allocate the parameters and buffers of a module on the device of the context, and fill them with the values of
    the leading process; all processes must call this. Parameters whose `id` is in `skip_ids` are left out.
    """
    for parameter in module.parameters():
        if id(parameter) in skip_ids:
            continue
        if parameter.is_meta:
            swap_parameter_data(parameter, torch.empty(parameter.shape, dtype=parameter.dtype, device=context.device))
        else:
            parameter.data = parameter.data.to(context.device).contiguous()
        context.broadcast_([parameter.data])
    for buffer in module.buffers():
        buffer.data = buffer.data.to(context.device).contiguous()
        context.broadcast_([buffer.data])


def _iter_unshared_layers(model: nn.Module, layers: Collection[nn.Module]) -> Iterator[nn.Module]:
    """Yield those of the layers that share no parameter with another module of the model."""
    numbers_by_layer = {layer: {id(parameter) for parameter in layer.parameters()} for layer in layers}
    modules_in_layers = {module for layer in layers for module in layer.modules()}
    outside = {id(p) for m in model.modules() if m not in modules_in_layers for p in m.parameters(recurse=False)}
    counts = Counter(number for numbers in numbers_by_layer.values() for number in numbers)
    for layer, numbers in numbers_by_layer.items():
        if numbers and not numbers & outside and all(counts[number] == 1 for number in numbers):
            yield layer


def _get_local(tensor: Tensor) -> Tensor:
    """Return this process's part of a `DTensor`."""
    assert isinstance(tensor, DTensor)
    local: Tensor = tensor.to_local()
    return local


def supports_sharding() -> bool:
    """Return whether this version of PyTorch can split the parameters of heedful's layers.

    Layers return their states as dataclasses. Before version 2.13, `fully_shard` does not see the tensors in them, so
    parameters would be missing in the backward pass.
    """
    return hasattr(_fsdp_state, "collect_grad_tensors")
