"""Size, floating-point operations and memory of a model, computed without allocating it."""

from __future__ import annotations

import math
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode

from heedful.attention.multihead import HeadedAttention
from heedful.blocks.recurrent import RecurrentCell
from heedful.blocks.residual import TokenBatchNorm
from heedful.blocks.transformer import TransformerStack
from heedful.errors import RecipeError
from heedful.models.parameters import find_shared_names
from heedful.tensors import swap_parameter_data

TensorOrModule = TypeVar("TensorOrModule", Tensor, nn.Module)
_FILL_FUNCTIONS: Final = frozenset(
    {"normal_", "uniform_", "trunc_normal_", "xavier_uniform_", "zero_", "fill_", "copy_"}
)
"""Functions that fill tensors; for tensors on the meta device they would load torch's compiler, which takes seconds."""
MAX_MODULES: Final = 100_000
"""Maximum number of modules of a model; a thousand layers have half as many."""
_LONGEST_RANGE: Final = 2**26
"""Maximum length of a range of numbers, of which a model has one for each of its dimensions."""
_OVERFLOW_MESSAGE: Final = re.compile(r"(?i)overflow|too large|too big|out of range|larger than")
"""Matches torch's messages about sizes that exceed 64 bits."""
_UNCOUNTABLE: Final = 2**63
_NO_MEMORY_MESSAGE: Final = re.compile(r"can't allocate memory: you tried to allocate (\d+) bytes")
"""Matches torch's message about a failed memory allocation."""
_MAX_OUTPUT_RATIO: Final = 8
"""An output layer that widens more than this is over a vocabulary; its loss is computed block by block."""


class _NoFillMode(TorchFunctionMode):
    """Torch function mode that skips filling of tensors without memory and refuses huge ranges."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func`, but return the tensor unchanged if `func` fills one on the meta device, and raise
        `OverflowError` for a huge range.
        """
        if getattr(func, "__name__", "") in _FILL_FUNCTIONS:
            target = args[0] if args else (kwargs or {})["tensor"]
            if target.is_meta:
                return target
        options = dict(kwargs or {})
        if func is torch.arange:  # small, and so is everything made from it
            options["device"] = "cpu"
            if any(isinstance(number, int | float) and abs(number) > _LONGEST_RANGE for number in args):
                raise OverflowError("a range of too many numbers overflows")
        return func(*args, **options)


class ModelTooLargeError(RecipeError):
    """Raised while a model is built that exceeds the allowed size."""

    def __init__(self, *, bytes_: int, modules: int, max_bytes: float, reason: str = "") -> None:
        self._values = {"bytes_": bytes_, "modules": modules, "max_bytes": max_bytes}
        if bytes_ > max_bytes:
            what = f"needs at least {bytes_ / 2**30:,.1f} GiB, and this machine has {max_bytes / 2**30:,.1f} GiB"
        elif bytes_ >= _UNCOUNTABLE:
            what = "has more parameters than 64 bits can count"
        else:
            what = f"has more than {modules - 1:,} modules, the largest possible number"
        super().__init__(f"{reason or 'model'}: the model {what}; make it smaller")

    def with_reason(self, reason: str) -> ModelTooLargeError:
        """Return the same error with a message that begins with the cause."""
        return ModelTooLargeError(**self._values, reason=reason)  # type: ignore[arg-type]  # a float is one of them


class _SizeLimiter:
    """Counts the parameters and modules of a model under construction; discarded ones do not count."""

    def __init__(self, *, max_bytes: float, meta: bool) -> None:
        self._max_bytes, self._meta = max_bytes, meta
        self._thread = threading.get_ident()
        self._parameters: list[weakref.ref[Tensor]] = []
        self._modules: list[weakref.ref[nn.Module]] = []
        self._bytes = self._replaceable = 0

    def add_parameter(self, _module: nn.Module, _name: str, parameter: nn.Parameter | None) -> None:
        """Count a parameter; raise `ModelTooLargeError` if the model is too large."""
        if parameter is None or threading.get_ident() != self._thread or parameter.is_meta != self._meta:
            return
        size = _count_bytes(parameter)
        self._parameters.append(weakref.ref(parameter))
        self._bytes += size
        # A matrix that will be tied is made before it is replaced.
        self._replaceable = max(self._replaceable, size if size <= self._max_bytes else 0)
        if self._bytes > self._max_bytes + self._replaceable:
            self.require_size(tolerance=self._replaceable)

    def require_size(self, *, tolerance: int = 0) -> None:
        """Count the parameters exactly; raise `ModelTooLargeError` if they exceed the limit by more than `tolerance`
        bytes.
        """
        self._parameters = _drop_dead_references(self._parameters)
        self._bytes = sum(_count_bytes(parameter) for ref in self._parameters if (parameter := ref()) is not None)
        if self._bytes > self._max_bytes + tolerance:
            raise self.build_error()

    def add_module(self, _module: nn.Module, _name: str, module: nn.Module | None) -> None:
        """Count a module; raise `ModelTooLargeError` if there are too many."""
        if module is None or threading.get_ident() != self._thread:
            return
        self._modules.append(weakref.ref(module))
        if len(self._modules) > MAX_MODULES:
            self._modules = _drop_dead_references(self._modules)
            if len(self._modules) > MAX_MODULES:
                raise self.build_error()

    def build_error(self, *, missing: int = 0) -> ModelTooLargeError:
        """Return the error to raise; `missing` bytes could not be allocated or counted."""
        max_bytes = min(self._max_bytes, self._bytes) if missing and missing < _UNCOUNTABLE else self._max_bytes
        return ModelTooLargeError(bytes_=self._bytes + missing, modules=len(self._modules), max_bytes=max_bytes)


def _drop_dead_references(references: list[weakref.ref[TensorOrModule]]) -> list[weakref.ref[TensorOrModule]]:
    """Keep the references to objects that still exist, once each."""
    living = {id(target): reference for reference in references if (target := reference()) is not None}
    return list(living.values())


def _count_bytes(parameter: Tensor) -> int:
    return parameter.numel() * parameter.element_size()


@contextmanager
def limit_model_size(*, max_bytes: float, meta: bool = False) -> Iterator[None]:
    """Context manager: the parameters of a model that is built inside must not exceed `max_bytes`; `meta` counts those
    on the meta device instead of all others.

    Args:
        max_bytes: maximum size of its parameters.
        meta: count parameters on the meta device, and no others.

    Raises:
        ModelTooLargeError: as soon as the model is larger, or has more modules than `MAX_MODULES`.
    """
    limiter = _SizeLimiter(max_bytes=max_bytes, meta=meta)
    hooks = (
        register_module_parameter_registration_hook(limiter.add_parameter),
        register_module_module_registration_hook(limiter.add_module),
    )
    try:
        yield
        limiter.require_size()
    except (OverflowError, RuntimeError, TypeError) as error:
        if match := _NO_MEMORY_MESSAGE.search(str(error)):
            raise limiter.build_error(missing=int(match[1])) from None
        if _OVERFLOW_MESSAGE.search(str(error)):
            raise limiter.build_error(missing=_UNCOUNTABLE) from None
        raise
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def build_without_memory(*, max_bytes: float = math.inf) -> Iterator[None]:
    """Context manager: build models on the meta device, without memory, but with the limit of `limit_model_size`."""
    with limit_model_size(max_bytes=max_bytes, meta=True), torch.device("meta"), _NoFillMode():
        yield


@contextmanager
def init_empty_weights() -> Iterator[None]:
    """Context manager: create parameters of models on the meta device, without memory and without initialization;
    buffers and parameters without dimensions are allocated as usual.
    """
    thread = threading.get_ident()

    def free_parameter(_module: nn.Module, _name: str, parameter: nn.Parameter | None) -> None:
        if parameter is None or parameter.is_meta or not parameter.dim() or threading.get_ident() != thread:
            return
        swap_parameter_data(parameter, torch.empty_like(parameter, device="meta"))

    hook = register_module_parameter_registration_hook(free_parameter)
    try:
        with _NoFillMode():
            yield
    finally:
        hook.remove()


@dataclass(frozen=True)
class ParameterInfo:
    """One parameter of a model: its name, its shape, and the name under which it was counted before."""

    name: str
    shape: tuple[int, ...]
    tied_to: str | None = None

    @property
    def num_parameters(self) -> int:
        """Numbers that the parameter adds to the model; 0 if it is tied."""
        return 0 if self.tied_to is not None else math.prod(self.shape)


@dataclass(frozen=True)
class ModelSize:
    """The size of a model.

    Attributes:
        parameters_info: its parameters, in the order of the modules.
        forward_flops: floating-point operations to read one source and one target token in sentences of `length`; a
            multiplication and an addition count as two.
        length: assumed length of the sentences, in tokens.
    """

    parameters_info: tuple[ParameterInfo, ...]
    forward_flops: int
    length: int

    @property
    def num_parameters(self) -> int:
        """Number of learned numbers; tied ones count once."""
        return sum(part.num_parameters for part in self.parameters_info)

    @property
    def training_flops(self) -> int:
        """Operations of forward and backward pass for the same two tokens: three times the forward ones."""
        return 3 * self.forward_flops

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights in fp32."""
        return 4 * self.num_parameters

    @property
    def training_bytes(self) -> int:
        """Bytes of weights, gradients and both moments of Adam in fp32, without activations."""
        return 16 * self.num_parameters


def measure_model(model: nn.Module, *, length: int = 25) -> ModelSize:
    """Return the size of a model: its parameters, and the operations per token in texts of `length` tokens; works on
    the meta device.

    Matrix products are counted, and attention's two products with `length` keys; element-wise operations are left out,
    as usual (Kaplan et al. 2020, 2.1).
    """
    products = sum(module.weight.numel() for module in model.modules() if isinstance(module, nn.Linear))
    attention = sum(
        length * module.heads * (module.d_k + module.d_v)
        for module in model.modules()
        if isinstance(module, HeadedAttention)
    )
    tied = find_shared_names(model)
    parameters = tuple(
        ParameterInfo(name, tuple(parameter.shape), tied.get(name))
        for name, parameter in model.named_parameters(remove_duplicate=False)
    )
    return ModelSize(parameters, 2 * (products + attention), length)


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes that training needs, without data and libraries.

    Attributes:
        weights: of the model, including fp32 masters and a running average if there are any.
        gradients: of the trained parameters.
        moments: optimizer state.
        activations: stored activations of one batch, correct within a factor of about three; None if unknown, as for
            convolutions over pictures.
    """

    weights: int
    gradients: int
    moments: int
    activations: int | None

    @property
    def bytes_without_activations(self) -> int:
        """Sum of everything except the activations."""
        return self.weights + self.gradients + self.moments

    def split(self, processes: int) -> TrainingMemory:
        """Return the bytes of one process if several hold an equal part of everything but the activations."""
        weights, gradients, moments = (
            math.ceil(size / processes) for size in (self.weights, self.gradients, self.moments)
        )
        return replace(self, weights=weights, gradients=gradients, moments=moments)


def estimate_training_memory(
    model: nn.Module, *, state_numbers: int, use_bf16: bool, has_average: bool, tokens: int, length: int
) -> TrainingMemory:
    """Estimate the memory that training a model needs for a batch of `tokens` tokens in texts of `length` tokens;
    `state_numbers` is how many numbers the optimizer stores. Works on the meta device.

    Args:
        model: with `requires_grad` set on the trained parameters.
        state_numbers: numbers that the optimizer stores; two for each trained parameter with Adam.
        use_bf16: whether training computes in bf16, with fp32 masters and gradient sums.
        has_average: whether there is a running average of the weights.
        tokens: tokens in a batch, including padding, on each side.
        length: tokens of an example, for attention.
    """
    parameters = list(model.parameters())
    num_parameters = sum(parameter.numel() for parameter in parameters)
    num_trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    bytes_per_number = 2 if use_bf16 else 4
    activations_per_token = _count_activations(model, length)
    return TrainingMemory(
        weights=num_parameters * (4 + (2 if use_bf16 else 0) + (4 if has_average else 0)),
        gradients=num_trained * (6 if use_bf16 else 4),
        moments=4 * state_numbers,
        activations=None if activations_per_token is None else int(bytes_per_number * tokens * activations_per_token),
    )


def _count_activations(model: nn.Module, length: int) -> float | None:
    """Count the numbers per token that the backward pass needs, for texts of `length` tokens: inputs and outputs of
    matrix products, attention weights, and inputs of norms and lookups. Of layers that are computed again, these are
    the inputs, and everything of the largest layer. None for a model with convolutions of images.
    """
    if any(isinstance(module, nn.Conv2d | nn.Conv3d) for module in model.modules()):
        return None
    total = sum(_count_own_activations(module, length) for module in model.modules())
    for stack in model.modules():
        if isinstance(stack, TransformerStack) and stack.gradient_checkpointing:
            layers = [sum(_count_own_activations(part, length) for part in layer.modules()) for layer in stack.layers]
            total += max(layers, default=0) - sum(layers) + sum(info.width or 0 for info in stack.describe_layers())
    return total


def _count_own_activations(module: nn.Module, length: int) -> float:
    """Count the numbers per token that the backward pass needs of a module, without its submodules."""
    match module:
        case nn.Linear(in_features=d_input, out_features=d_output):
            return float(d_input + (d_output if d_output <= _MAX_OUTPUT_RATIO * d_input else 0))
        case HeadedAttention():
            return float(module.heads * length)
        case nn.LayerNorm() | nn.RMSNorm() | TokenBatchNorm():
            return float(math.prod(module.normalized_shape))
        case nn.Embedding(embedding_dim=width):
            return float(width)
        case RecurrentCell():  # its gates and its state, before and after each of its functions
            return float(module.input.out_features + module.recurrent.out_features)
    return 0.0
