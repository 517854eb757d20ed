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
from heedful.blocks.recurrent import Cell

_FILLING: Final = frozenset({"normal_", "uniform_", "trunc_normal_", "xavier_uniform_", "zero_", "fill_", "copy_"})
"""Random numbers for memory that is not there would load torch's compiler, which takes seconds."""
_WIDEST: Final = 8
"""An output layer that widens more than this is one over a vocabulary, whose loss is made block by block."""


class _Imagining(TorchFunctionMode):
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
    with torch.device("meta"), _Imagining():
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


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes that training needs beside data and libraries.

    Attributes:
        weights: of the model, with fp32 masters and a running average where there are such.
        gradients: of what learns.
        moments: what the optimizer remembers of gradients.
        activations: what one batch keeps for its gradients, right within a factor of about three; None where that
            cannot be told, as of convolutions over pictures.
    """

    weights: int
    gradients: int
    moments: int
    activations: int | None

    @property
    def known(self) -> int:
        """All but the activations."""
        return self.weights + self.gradients + self.moments


def training_memory(
    model: nn.Module, *, moments: int, half: bool, averaged: bool, tokens: int, length: int
) -> TrainingMemory:
    """What training a model needs; works on the meta device.

    Args:
        model: with `requires_grad` of what learns.
        moments: numbers that the optimizer remembers of each gradient: 2 of Adam.
        half: whether it computes in bf16, with fp32 masters and sums of gradients.
        averaged: whether there is a running average of the weights.
        tokens: in a batch, with padding, on each side.
        length: tokens of an example, which attention looks at.
    """
    every = list(model.parameters())
    total = sum(parameter.numel() for parameter in every)
    learned = sum(parameter.numel() for parameter in every if parameter.requires_grad)
    number = 2 if half else 4
    numbers = _kept(model, length)
    return TrainingMemory(
        weights=total * (4 + (2 if half else 0) + (4 if averaged else 0)),
        gradients=learned * (6 if half else 4),
        moments=4 * moments * learned,
        activations=None if numbers is None else int(number * tokens * numbers),
    )


def _kept(model: nn.Module, length: int) -> float | None:
    """Numbers for each token that the backward pass needs: what goes into and comes out of matrix products, weights of
    attention, and what is normalised or looked up."""
    total = 0.0
    for module in model.modules():
        match module:
            case nn.Conv2d() | nn.Conv3d():
                return None
            case nn.Linear(in_features=before, out_features=after):
                total += before + (after if after <= _WIDEST * before else 0)
            case HeadedAttention():
                total += module.heads * length
            case nn.LayerNorm():
                total += math.prod(module.normalized_shape)
            case nn.Embedding(embedding_dim=width):
                total += width
            case Cell():  # its gates and its state, before and after each of its functions
                total += module.input.out_features + module.recurrent.out_features
    return total


def _parts(model: nn.Module) -> Iterator[Part]:
    seen: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first = seen.setdefault(id(parameter), name)
        yield Part(name, tuple(parameter.shape), None if first == name else first)
