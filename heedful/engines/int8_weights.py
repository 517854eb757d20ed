"""Weights of a model whose large matrices are stored in 8 bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from torch import Tensor, nn

from heedful.engines.int8 import Int8Matrix, find_quantizable
from heedful.errors import RunError

SCALE_SUFFIX: Final = ".scale"
"""Suffix of the stored name of a matrix's scales."""


@dataclass(frozen=True, eq=False)
class Int8Weights(Mapping[str, Tensor]):
    """Weights by parameter name; an int8 matrix becomes a floating-point tensor each time it is read.

    Attributes:
        exact: weights stored in floating point.
        quantized: weights stored as int8.
    """

    exact: Mapping[str, Tensor]
    quantized: Mapping[str, Int8Matrix]

    def __getitem__(self, name: str) -> Tensor:
        return self.quantized[name].dequantize() if name in self.quantized else self.exact[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.exact
        yield from self.quantized

    def __len__(self) -> int:
        return len(self.exact) + len(self.quantized)

    def __contains__(self, name: object) -> bool:
        return name in self.exact or name in self.quantized

    def dequantize(self) -> dict[str, Tensor]:
        """Return all weights in floating point."""
        return dict(self)


def split_int8(weights: Mapping[str, Tensor]) -> tuple[Mapping[str, Tensor], Mapping[str, Int8Matrix]]:
    """Return the weights that are stored in floating point and those stored as int8."""
    return (weights.exact, weights.quantized) if isinstance(weights, Int8Weights) else (weights, {})


def quantize_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors to store for the weights of a model: its large matrices as int8, each with its scales under
    the same name with `SCALE_SUFFIX`, and all others as they are.
    """
    large_names = {f"{name}.weight" for name in find_quantizable(model)}
    stored: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if name in large_names:
            quantized = Int8Matrix.from_weight(weight)
            stored |= {name: quantized.rows, name + SCALE_SUFFIX: quantized.scale}
        else:
            stored[name] = weight
    return stored


def read_int8_weights(stored: Mapping[str, Tensor], *, location: str) -> Int8Weights:
    """Return the weights that `quantize_weights` stored, without dequantizing them.

    Raises:
        RunError: a matrix and its scales do not fit together; the message names `location`.
    """
    names = [name.removesuffix(SCALE_SUFFIX) for name in stored if name.endswith(SCALE_SUFFIX)]
    for name in names:
        if name not in stored or not Int8Matrix.is_valid(stored[name], stored[name + SCALE_SUFFIX]):
            raise RunError(f"{location}: {name} is damaged; restore it from a copy or quantize again")
    quantized = {name: Int8Matrix(stored[name], stored[name + SCALE_SUFFIX]) for name in names}
    exact = {name: tensor for name, tensor in stored.items() if name.removesuffix(SCALE_SUFFIX) not in quantized}
    return Int8Weights(exact, quantized)
