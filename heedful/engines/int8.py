"""Linear maps and embeddings with int8 weights, and the kernels that multiply them."""

from __future__ import annotations

import platform
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Final

import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrize import is_parametrized, remove_parametrizations

from heedful.blocks.recurrent import RecurrentCell
from heedful.recipes.recipe import EngineName

WEIGHT_LEVELS: Final = 127
"""Quantization levels of weights on either side of zero."""
HAS_VNNI: Final = bool(getattr(torch.cpu, "_is_vnni_supported", bool)())
"""Whether the processor is known to add int8 products in 32 bits."""
INPUT_LEVELS: Final = WEIGHT_LEVELS if HAS_VNNI or platform.machine() not in ("x86_64", "AMD64") else 63
"""Quantization levels of inputs on either side of zero: x86 without VNNI adds pairs of products in 16 bits, which
limits the levels."""
_TINY: Final = 1e-30
"""Smallest divisor, to avoid division by zero."""


class Int8Kernel(ABC):
    """Base class: one way to multiply with an int8 matrix, whose weights are prepared once.

    Args:
        rows: integers from -127 to 127, a row for each output number.
        scale: scale of each row.
    """

    @abstractmethod
    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None: ...

    @abstractmethod
    def multiply(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "N n"]:
        """Return x W' as a new tensor; no entry of x may exceed 1 in absolute value."""

    @classmethod
    def is_supported(cls) -> bool:
        """Return whether this build of PyTorch has the kernel and the processor computes it without overflow."""
        generator = torch.Generator().manual_seed(0)
        rows = torch.randint(-WEIGHT_LEVELS, WEIGHT_LEVELS + 1, (24, 64), generator=generator, dtype=torch.int8)
        integers = torch.randint(-INPUT_LEVELS, INPUT_LEVELS + 1, (8, 64), generator=generator, dtype=torch.int8)
        rows[0], rows[1], integers[0], integers[1] = WEIGHT_LEVELS, -WEIGHT_LEVELS, INPUT_LEVELS, -INPUT_LEVELS
        expected = integers.float() @ rows.float().t()
        try:
            result = cls(rows, torch.ones(len(rows))).multiply(integers / INPUT_LEVELS) * INPUT_LEVELS
        except (RuntimeError, AttributeError, NotImplementedError, TypeError):
            return False
        return bool(torch.allclose(result, expected, rtol=1e-5, atol=1e-2))  # whole numbers, in 32 bits


class FbgemmKernel(Int8Kernel):
    """FBGEMM's product, which rounds vectors itself: the fastest for few vectors on x86."""

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        previous_engine = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        try:
            with warnings.catch_warnings():  # a later PyTorch will remove this; then another kernel works
                warnings.simplefilter("ignore")
                quantized = torch._make_per_channel_quantized_tensor(
                    rows, scale.double(), torch.zeros(len(rows), dtype=torch.long), 0
                )
                self._packed = torch.ops.quantized.linear_prepack(quantized, None)
        finally:
            torch.backends.quantized.engine = previous_engine

    def multiply(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "N n"]:
        """Return the product x W' of input vectors and the matrix."""
        product: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            x, 1 / INPUT_LEVELS, INPUT_LEVELS + 1, self._packed
        )
        return product


class OneDnnKernel(Int8Kernel):
    """oneDNN's product of unsigned and signed bytes with packed weights: for many vectors and wide matrices."""

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        self._packed = torch.ops.onednn.qlinear_prepack(rows, None)
        self._scale, self._zeros = scale, torch.zeros(len(rows), dtype=torch.long)

    def multiply(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "N n"]:
        """Return the product x W' of input vectors and the matrix."""
        integers = x.mul(INPUT_LEVELS).round_().add_(INPUT_LEVELS + 1).to(torch.uint8)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            *(integers, 1 / INPUT_LEVELS, INPUT_LEVELS + 1, self._packed, self._scale, self._zeros, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        return product


class TorchInt8Kernel(Int8Kernel):
    """PyTorch's own product of int8 matrices."""

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        self._columns, self._scale = rows.t(), scale / INPUT_LEVELS

    def multiply(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "N n"]:
        """Return x W'."""
        return torch._int_mm(x.mul(INPUT_LEVELS).round_().to(torch.int8), self._columns) * self._scale


class FloatKernel(Int8Kernel):
    """The same sums in floating point, where no int8 product is supported, and for other dtypes than fp32."""

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        self._columns = (rows.float() * (scale / INPUT_LEVELS).unsqueeze(1)).t()

    def multiply(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "N n"]:
        """Return x W'."""
        return x.mul(INPUT_LEVELS).round_() @ self._columns.to(x.dtype)


def time_calls(function: Callable[[], object], *, count: int) -> float:
    """Call a function `count` times and return the seconds of the fastest call."""
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


@cache
def find_kernels() -> tuple[type[Int8Kernel], ...]:
    """Return the kernels that work here, at least one."""
    return tuple(kernel for kernel in (FbgemmKernel, OneDnnKernel, TorchInt8Kernel) if kernel.is_supported()) or (
        FloatKernel,
    )


class Int8Product:
    """Product x W' + b with the fastest kernel for the number of vectors.

    The kernel is chosen by measurement when a matrix of this shape first meets about this many vectors in this process.

    Args:
        rows: of W, integers from -127 to 127.
        scale: scale of each row.

    Attributes:
        min_elements: minimum number of matrix elements for which this is faster than a floating-point product: the
            overhead takes as long as a product of 256 x 256.
        engine_name: name of the engine that uses such products.
    """

    min_elements: ClassVar[int] = 2**17
    engine_name: ClassVar[EngineName] = "int8"

    _fastest_kernels: ClassVar[dict[tuple[int, ...], type[Int8Kernel]]] = {}

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        self._quantized = (rows, scale)
        self._kernels: dict[type[Int8Kernel], Int8Kernel] = {}

    def __call__(self, x: Float[Tensor, "N k"], bias: Float[Tensor, " n"] | None) -> Float[Tensor, "N n"]:
        """Return x W' + b for each input vector, without b if there is no bias."""
        largest = x.abs().amax(-1, keepdim=True).clamp_(min=_TINY)
        product = self._select_kernel(x).multiply(x / largest)
        return product.mul_(largest) if bias is None else torch.addcmul(bias, product, largest, out=product)

    def __deepcopy__(self, _memo: Any) -> Int8Product:
        return type(self)(*self._quantized)

    def _select_kernel(self, x: Tensor) -> Int8Kernel:
        """Return the kernel that is fastest for this number of vectors; it is measured once."""
        if x.dtype != torch.float32:
            return self._get_kernel(FloatKernel)
        key = (*self._quantized[0].shape, len(x).bit_length(), torch.get_num_threads())
        fastest = self._fastest_kernels.get(key)
        if fastest is None:
            fastest = self._fastest_kernels[key] = min(find_kernels(), key=lambda kernel: self._time_kernel(kernel, x))
        return self._get_kernel(fastest)

    def _get_kernel(self, kernel: type[Int8Kernel]) -> Int8Kernel:
        """Return the kernel of this class for the matrix; the weights are prepared at the first call."""
        prepared = self._kernels.get(kernel)
        if prepared is None:
            prepared = self._kernels[kernel] = kernel(*self._quantized)
        return prepared

    def _time_kernel(self, kernel: type[Int8Kernel], x: Tensor) -> float:
        """Return the seconds of the fastest of three products of a kernel and these vectors."""
        prepared = self._get_kernel(kernel)
        x = x / x.abs().amax().clamp(min=_TINY)
        return time_calls(lambda: prepared.multiply(x), count=3)  # the first of them prepares what the others use


MIN_ELEMENTS: Final = 4096
"""Minimum number of elements of a matrix that is stored as int8."""


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
        with torch.inference_mode(mode=False):  # it stays, and gradients may pass through it later
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
        with torch.inference_mode(mode=False):
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
    `quantized` are matrices that are int8 already, by the names of their weights.

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
