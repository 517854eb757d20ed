"""Linear maps in native code: with int8, bf16 or fp32 weights."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias, final

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn
from torch.nn import functional

from heedful.engines.int8 import Int8Linear, Int8Product, find_quantizable
from heedful.native import data_pointer, require_library
from heedful.recipes.recipe import EngineName

FloatPrecision: TypeAlias = Literal["float32", "bfloat16"]
"""Precision of weights in native code that are not int8."""


class NativeProduct(Int8Product):
    """Product x W' + b in one native call; inputs have 127 levels on every processor.

    Args:
        rows: of W, integers from -127 to 127.
        scale: scale of each row.
    """

    min_elements: ClassVar[int] = 0
    engine_name: ClassVar[EngineName] = "native"

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        super().__init__(rows, scale)
        self.packed_matrix = require_library().Matrix.from_int8(rows.data_ptr(), scale.data_ptr(), *rows.shape)
        self._height = len(rows)

    def __call__(self, x: Float[Tensor, "N k"], bias: Float[Tensor, " n"] | None) -> Float[Tensor, "N n"]:
        """Return x W' + b for each input vector, without b if there is no bias."""
        if x.dtype != torch.float32:
            return super().__call__(x, bias)
        return _multiply(self.packed_matrix, x, bias, self._height)


@final
class NativeLinear(nn.Linear):
    """Linear map x W' + b in one native call with bf16 or fp32 weights, whose sums are fp32; with bf16 weights x is
    rounded to bf16 too.

    PyTorch computes it in the precision of the weight while gradients are enabled. The weight must not change.

    Args:
        linear: the map whose weight and bias are shared.
        precision: of the weights in products.
        engine_name: name of the engine that it belongs to.
    """

    def __init__(self, linear: nn.Linear, precision: FloatPrecision, *, engine_name: EngineName) -> None:
        nn.Module.__init__(self)  # nn.Linear would create a weight
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.precision, self.engine_name = precision, engine_name
        self._packed: Any = None

    def __getstate__(self) -> dict[str, Any]:  # a packed matrix is freed with its owner
        return {**self.__dict__, "_packed": None}

    @property
    def packed_matrix(self) -> Any:
        """The weight as native code reads it; it is packed at the first use."""
        if self._packed is None:
            self._packed = _pack_matrix(self.weight, self.precision)
        return self._packed

    def forward(self, x: Float[Tensor, "*B k"]) -> Float[Tensor, "*B n"]:
        """Return one vector for each input vector."""
        if torch.is_grad_enabled() or x.dtype != torch.float32:
            return functional.linear(x, self.weight, self.bias)
        out = _multiply(self.packed_matrix, x.reshape(-1, self.in_features), self.bias, self.out_features)
        return out.view(*x.shape[:-1], self.out_features)


def get_packed_matrix(linear: nn.Linear) -> Any:
    """Return the weight of a linear map as native code reads it."""
    if isinstance(linear, Int8Linear) and isinstance(linear.product, NativeProduct):
        return linear.product.packed_matrix
    return linear.packed_matrix if isinstance(linear, NativeLinear) else _pack_matrix(linear.weight, "float32")


def replace_linear_maps(model: nn.Module, precision: FloatPrecision, *, engine_name: EngineName) -> None:
    """Replace the linear maps of a model by native ones for an engine, in place; those of fewer than 4,096 weights stay
    in fp32.

    All are replaced, so that a step gives the same numbers as one of several steps in one native call.
    """
    large, replacements = find_quantizable(model), dict[int, NativeLinear]()
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if type(module) is nn.Linear:
            own_precision = precision if name in large else "float32"
            replacement = replacements.setdefault(
                id(module), NativeLinear(module, own_precision, engine_name=engine_name)
            )
            parent_name, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(parent_name), attribute, replacement)


def _pack_matrix(weight: Tensor, precision: FloatPrecision) -> Any:
    """Return a copy of a matrix as native code reads it."""
    rows, matrix = weight.detach().float().contiguous(), require_library().Matrix
    pack = matrix.to_bfloat16 if precision == "bfloat16" else matrix.from_float32
    return pack(rows.data_ptr(), *rows.shape)


def _multiply(packed: Any, x: Float[Tensor, "N k"], bias: Tensor | None, width: int) -> Float[Tensor, "N n"]:
    """Return x W' + b, where W has `width` rows."""
    x, bias = x.contiguous(), None if bias is None else bias.detach().float().contiguous()
    out = x.new_empty(len(x), width)
    require_library().linear(
        *(packed.address, data_pointer(bias), x.data_ptr(), len(x), out.data_ptr(), torch.get_num_threads())
    )
    return out
