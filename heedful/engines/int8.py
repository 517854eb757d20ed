"""Int8 quantization of large matrices: a quarter of the memory, and products that are several times as fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrize import is_parametrized, remove_parametrizations

from heedful.blocks.recurrent import RecurrentCell
from heedful.engines.int8_kernels import WEIGHT_LEVELS, Int8Product

MIN_ELEMENTS: Final = 4096
"""Minimum number of elements of a matrix that is stored as int8."""
SCALE_SUFFIX: Final = ".scale"
"""Suffix of the stored name of a matrix's scales."""


@dataclass(frozen=True, eq=False)
class Int8Matrix:
    """A matrix as int8 numbers from -127 to 127, with a scale for each row."""

    rows: Int8[Tensor, "n k"]
    scale: Float[Tensor, " n"]

    @classmethod
    def from_weight(cls, weight: Float[Tensor, "n k"]) -> Int8Matrix:
        """Quantize a weight: the largest entry of each row becomes 127."""
        exact = weight.detach().float()
        scale = exact.abs().amax(1) / WEIGHT_LEVELS
        rows = (exact / scale.clamp(min=torch.finfo().tiny).unsqueeze(1)).round_().to(torch.int8)
        return cls(rows, scale)

    @staticmethod
    def is_valid(rows: Tensor, scale: Tensor) -> bool:
        """Return whether two tensors have the types and shapes of rows and scales."""
        return (rows.dtype, rows.dim(), scale.dtype) == (torch.int8, 2, torch.float32) and scale.shape == rows.shape[:1]

    def dequantize(self) -> Float[Tensor, "n k"]:
        """Return the matrix in floating point."""
        return self.rows.float() * self.scale.unsqueeze(1)


class Int8Linear(nn.Linear):
    """Linear map x W' + b with an int8 weight; each input vector is rounded to int8.

    Where a gradient is needed, it is that of the rounded W, and x is not rounded.
    """

    def __init__(
        self,
        matrix: Int8Matrix,
        bias: nn.Parameter | None,
        *,
        dtype: torch.dtype = torch.float32,
        product_class: type[Int8Product] = Int8Product,
    ) -> None:
        nn.Module.__init__(self)  # nn.Linear would create a weight
        self.out_features, self.in_features = matrix.rows.shape
        self.register_parameter("bias", bias)
        self.matrix, self._dtype = matrix, dtype
        self.product = (
            product_class(matrix.rows, matrix.scale) if matrix.rows.numel() >= product_class.min_elements else None
        )

    @property
    def rounds_inputs(self) -> bool:
        """Whether input vectors are rounded, because W is large enough for an int8 product."""
        return self.product is not None

    @cached_property
    def weight(self) -> Tensor:  # type: ignore[override]  # which other code may set
        """The weight in floating point."""
        return self.matrix.dequantize().to(self._dtype).t().contiguous().t()

    def forward(self, x: Float[Tensor, "*B k"]) -> Float[Tensor, "*B n"]:
        """Return one vector for each input vector."""
        if self.product is None or (x.requires_grad and torch.is_grad_enabled()):
            return functional.linear(x, self.weight, self.bias)
        return self.product(x.reshape(-1, self.in_features), self.bias).view(*x.shape[:-1], self.out_features)


class Int8Embedding(nn.Embedding):
    """Embedding table with int8 rows."""

    def __init__(self, matrix: Int8Matrix, *, dtype: torch.dtype = torch.float32) -> None:
        nn.Module.__init__(self)
        self.num_embeddings, self.embedding_dim = matrix.rows.shape
        self.padding_idx = self.max_norm = None
        self.matrix = matrix
        self.register_buffer("scale", matrix.scale.to(dtype), persistent=False)
        self.scale: Tensor

    @cached_property
    def weight(self) -> Tensor:  # type: ignore[override]  # which other code may set
        """The table in floating point."""
        return self.matrix.dequantize().to(self.scale.dtype)

    def forward(self, ids: Int[Tensor, "*B"]) -> Float[Tensor, "*B d"]:
        """Return the row of each id."""
        return self.matrix.rows[ids].to(self.scale.dtype) * self.scale[ids].unsqueeze(-1)


def find_quantizable(model: nn.Module) -> dict[str, nn.Linear | nn.Embedding]:
    """Return the linear maps and embeddings of a model that are large enough for int8, under all their names."""
    return {
        name: module
        for name, module in model.named_modules(remove_duplicate=False)
        if type(module) in (nn.Linear, nn.Embedding)
        and isinstance(module, nn.Linear | nn.Embedding)
        and module.weight.numel() >= MIN_ELEMENTS
    }


def quantize_to_int8(
    model: nn.Module,
    quantized: Mapping[str, Int8Matrix] | None = None,
    *,
    product_class: type[Int8Product] = Int8Product,
) -> None:
    """Replace the large matrices of a model by int8 ones, in place; modules that share a weight keep sharing it.

    The model cannot be trained any more, but gradients of its inputs pass through it.

    Args:
        model: on a CPU.
        quantized: matrices that are quantized already, by the names of their weights.
        product_class: class of the products with input vectors.
    """
    for module in list(model.modules()):
        if is_parametrized(module, "weight"):  # a weight that is computed again in each call
            remove_parametrizations(module, "weight")
    known, matrices_by_id = dict(quantized or {}), dict[int, Int8Matrix]()
    modules = find_quantizable(model)
    for name, module in modules.items():
        if (matrix := known.get(f"{name}.weight")) is not None:
            matrices_by_id[id(module.weight)] = matrix
    replacements: dict[int, nn.Module] = {}
    for name, module in modules.items():
        if id(module) not in replacements:
            matrix = matrices_by_id.get(id(module.weight)) or matrices_by_id.setdefault(
                id(module.weight), Int8Matrix.from_weight(module.weight)
            )
            replacements[id(module)] = (
                Int8Linear(matrix, module.bias, dtype=module.weight.dtype, product_class=product_class)
                if isinstance(module, nn.Linear)
                else Int8Embedding(matrix, dtype=module.weight.dtype)
            )
        parent_name, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent_name), attribute, replacements[id(module)])
    for module in model.modules():
        if isinstance(module, RecurrentCell) and any(
            isinstance(child, Int8Linear) and child.rounds_inputs for child in module.children()
        ):
            module.uses_kernel = False
    model.requires_grad_(requires_grad=False)
