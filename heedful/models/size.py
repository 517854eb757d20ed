"""How large a model is, without the memory to hold it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from heedful.attention.multihead import HeadedAttention

_FILLING: Final = frozenset({"normal_", "uniform_", "trunc_normal_", "xavier_uniform_", "zero_", "fill_", "copy_"})
"""Random numbers for memory that is not there would load torch's compiler, which takes seconds."""


class _Unfilled(TorchFunctionMode):
    """Leaves tensors as they are that somebody wants to fill."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if getattr(func, "__name__", "") in _FILLING:
            return args[0] if args else (kwargs or {})["tensor"]
        given = dict(kwargs or {})
        if func is torch.arange:  # small, and what is made of it is never large
            given["device"] = "cpu"
        return func(*args, **given)


@contextmanager
def imagined() -> Iterator[None]:
    """What is built inside has shapes and no memory."""
    with torch.device("meta"), _Unfilled():
        yield


@dataclass(frozen=True)
class Part:
    """One parameter of a model: where it is, its shape, and under which other name it was counted already."""

    name: str
    shape: tuple[int, ...]
    tied_to: str | None = None

    @property
    def parameters(self) -> int:
        """Numbers that it adds to the model; none if it is tied."""
        return 0 if self.tied_to is not None else math.prod(self.shape)


@dataclass(frozen=True)
class Size:
    """The size of a model.

    Attributes:
        parts: its parameters, in the order of the modules.
        forward_flops: floating-point operations to read one source and one target token in sentences of `length`, a
            multiplication and an addition counting two.
    """

    parts: tuple[Part, ...]
    forward_flops: int
    length: int

    @property
    def parameters(self) -> int:
        """Numbers that are learned, tied ones once."""
        return sum(part.parameters for part in self.parts)

    @property
    def training_flops(self) -> int:
        """Operations of forward and backward for the same two tokens: three times the forward ones."""
        return 3 * self.forward_flops

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights in fp32."""
        return 4 * self.parameters

    @property
    def training_bytes(self) -> int:
        """Bytes of weights, gradients and both moments of Adam in fp32, without activations."""
        return 16 * self.parameters


def measure(model: nn.Module, *, length: int = 25) -> Size:
    """The size of a model; works on the meta device.

    Matrix products are counted, and attention's two products with `length` keys; element-wise work is left out, as is
    usual (Kaplan et al. 2020, 2.1).
    """
    products = sum(module.weight.numel() for module in model.modules() if isinstance(module, nn.Linear))
    attention = sum(
        length * module.heads * (module.d_k + module.d_v)
        for module in model.modules()
        if isinstance(module, HeadedAttention)
    )
    return Size(tuple(_parts(model)), 2 * (products + attention), length)


def _parts(model: nn.Module) -> Iterator[Part]:
    seen: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first = seen.setdefault(id(parameter), name)
        yield Part(name, tuple(parameter.shape), None if first == name else first)
