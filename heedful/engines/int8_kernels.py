"""Int8 matrix products with a scale per row; several kernels compute the same sums.

A vector is divided by its largest entry and rounded to a number of levels on either side of zero. So its result depends
on no other vector of its batch, and the sums of products are integers, which are the same in any order and with any
kernel. Therefore the fastest kernel for a number of vectors may be found while working: the choice changes only the
last bits.
"""

from __future__ import annotations

import platform
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Final

import torch
from jaxtyping import Float, Int8
from torch import Tensor

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
        """Return x W'."""
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
        """Return x W'."""
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
    """Return the seconds of the fastest of some calls."""
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
    """

    min_elements: ClassVar[int] = 2**17

    _fastest_kernels: ClassVar[dict[tuple[int, ...], type[Int8Kernel]]] = {}

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        self._quantized = (rows, scale)
        self._kernels: dict[type[Int8Kernel], Int8Kernel] = {}

    def __call__(self, x: Float[Tensor, "N k"], bias: Float[Tensor, " n"] | None) -> Float[Tensor, "N n"]:
        """Return one vector for each input vector."""
        largest = x.abs().amax(-1, keepdim=True).clamp_(min=_TINY)
        product = self._select_kernel(x).multiply(x / largest)
        return product.mul_(largest) if bias is None else torch.addcmul(bias, product, largest, out=product)

    def __deepcopy__(self, _memo: Any) -> Int8Product:
        return type(self)(*self._quantized)

    def _select_kernel(self, x: Tensor) -> Int8Kernel:
        """Return the fastest kernel for these vectors; measure it at first."""
        if x.dtype != torch.float32:
            return self._get_kernel(FloatKernel)
        key = (*self._quantized[0].shape, len(x).bit_length(), torch.get_num_threads())
        fastest = self._fastest_kernels.get(key)
        if fastest is None:
            fastest = self._fastest_kernels[key] = min(find_kernels(), key=lambda kernel: self._time_kernel(kernel, x))
        return self._get_kernel(fastest)

    def _get_kernel(self, kernel: type[Int8Kernel]) -> Int8Kernel:
        prepared = self._kernels.get(kernel)
        if prepared is None:
            prepared = self._kernels[kernel] = kernel(*self._quantized)
        return prepared

    def _time_kernel(self, kernel: type[Int8Kernel], x: Tensor) -> float:
        """Return the best of three run times of a kernel."""
        prepared = self._get_kernel(kernel)
        x = x / x.abs().amax().clamp(min=_TINY)
        return time_calls(lambda: prepared.multiply(x), count=3)  # the first of them prepares what the others use
