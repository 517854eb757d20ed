"""Models whose large matrices are bytes: a quarter of the memory, and products that are several times as fast."""

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

from heedful.blocks.recurrent import Cell
from heedful.engines.products import STEPS, Product

LEAST: Final = 4096
"""Numbers of a matrix that is stored as bytes."""
SCALE: Final = ".scale"
"""What the names of scales end with, behind that of their matrix, where both are stored."""


@dataclass(frozen=True, eq=False)
class Bytes:
    """A matrix as whole numbers from -127 to 127, and what a row of them is to be multiplied by."""

    rows: Int8[Tensor, "n k"]
    scale: Float[Tensor, " n"]

    @classmethod
    def of(cls, weight: Float[Tensor, "n k"]) -> Bytes:
        """The nearest: the largest entry of each row becomes 127."""
        exact = weight.detach().float()
        scale = exact.abs().amax(1) / STEPS
        rows = (exact / scale.clamp(min=torch.finfo().tiny).unsqueeze(1)).round_().to(torch.int8)
        return cls(rows, scale)

    @staticmethod
    def fits(rows: Tensor, scale: Tensor) -> bool:
        """Whether two tensors are such."""
        return (rows.dtype, rows.dim(), scale.dtype) == (torch.int8, 2, torch.float32) and scale.shape == rows.shape[:1]

    def floats(self) -> Float[Tensor, "n k"]:
        """The matrix that they stand for."""
        return self.rows.float() * self.scale.unsqueeze(1)


class Int8Linear(nn.Linear):
    """x W' + b, where the rows of W are bytes, and x is rounded to bytes vector by vector.

    Where a gradient is asked for it is that of W as it is rounded, and x is not.
    """

    def __init__(
        self,
        matrix: Bytes,
        bias: nn.Parameter | None,
        *,
        dtype: torch.dtype = torch.float32,
        kind: type[Product] = Product,
    ) -> None:
        nn.Module.__init__(self)  # nn.Linear would make a weight
        self.out_features, self.in_features = matrix.rows.shape
        self.register_parameter("bias", bias)
        self.matrix, self._dtype = matrix, dtype
        self.product = kind(matrix.rows, matrix.scale) if matrix.rows.numel() >= kind.worth else None

    @property
    def rounds(self) -> bool:
        """Whether vectors are rounded, as W is large enough for a product of bytes to be worth it."""
        return self.product is not None

    @cached_property
    def weight(self) -> Tensor:  # type: ignore[override]  # which others may set
        """W in floating point, for those who use it otherwise."""
        return self.matrix.floats().to(self._dtype).t().contiguous().t()

    def forward(self, x: Float[Tensor, "*B k"]) -> Float[Tensor, "*B n"]:
        """One vector for each."""
        if self.product is None or (x.requires_grad and torch.is_grad_enabled()):
            return functional.linear(x, self.weight, self.bias)
        return self.product(x.reshape(-1, self.in_features), self.bias).view(*x.shape[:-1], self.out_features)


class Int8Embedding(nn.Embedding):
    """A table whose rows are bytes."""

    def __init__(self, matrix: Bytes, *, dtype: torch.dtype = torch.float32) -> None:
        nn.Module.__init__(self)
        self.num_embeddings, self.embedding_dim = matrix.rows.shape
        self.padding_idx = self.max_norm = None
        self.matrix = matrix
        self.register_buffer("scale", matrix.scale.to(dtype), persistent=False)
        self.scale: Tensor

    @cached_property
    def weight(self) -> Tensor:  # type: ignore[override]  # which others may set
        """The table in floating point, for those who use it otherwise."""
        return self.matrix.floats().to(self.scale.dtype)

    def forward(self, ids: Int[Tensor, "*B"]) -> Float[Tensor, "*B d"]:
        """A row for each."""
        return self.matrix.rows[ids].to(self.scale.dtype) * self.scale[ids].unsqueeze(-1)


def matrices(model: nn.Module) -> dict[str, nn.Linear | nn.Embedding]:
    """The linear maps and tables of a model whose weights are stored as bytes, under all names that they have."""
    return {
        name: module
        for name, module in model.named_modules(remove_duplicate=False)
        if type(module) in (nn.Linear, nn.Embedding)
        and isinstance(module, nn.Linear | nn.Embedding)
        and module.weight.numel() >= LEAST
    }


def to_bytes(model: nn.Module, stored: Mapping[str, Bytes] | None = None, *, kind: type[Product] = Product) -> None:
    """Puts bytes in the place of the large matrices of a model, in place; those that share a weight go on sharing it.

    The model learns nothing any more, but gradients of what it reads go through it.

    Args:
        model: on a CPU.
        stored: what stands for weights already, by their names.
        kind: how vectors are multiplied with them.
    """
    for module in list(model.modules()):
        if is_parametrized(module, "weight"):  # a weight that is computed anew in each call
            remove_parametrizations(module, "weight")
    given, made = dict(stored or {}), dict[int, Bytes]()
    found = matrices(model)
    for name, module in found.items():
        if (matrix := given.get(f"{name}.weight")) is not None:
            made[id(module.weight)] = matrix
    replaced: dict[int, nn.Module] = {}
    for name, module in found.items():
        if id(module) not in replaced:
            matrix = made.get(id(module.weight)) or made.setdefault(id(module.weight), Bytes.of(module.weight))
            replaced[id(module)] = (
                Int8Linear(matrix, module.bias, dtype=module.weight.dtype, kind=kind)
                if isinstance(module, nn.Linear)
                else Int8Embedding(matrix, dtype=module.weight.dtype)
            )
        outside, _, own = name.rpartition(".")
        setattr(model.get_submodule(outside), own, replaced[id(module)])
    for module in model.modules():
        if isinstance(module, Cell) and any(isinstance(each, Int8Linear) and each.rounds for each in module.children()):
            module.by_kernel = False
    model.requires_grad_(requires_grad=False)
