"""Products of vectors with a matrix of bytes, each row of which has a scale; several kernels make the same sums.

A vector is divided by its largest entry and rounded to some steps to either side of zero. So what comes of it depends
on no other vector of its batch, and the sums of products are whole numbers, which are the same in whatever order and by
whatever kernel they are made. That is why the fastest kernel for a number of vectors may be found out while working:
the choice changes no more than the last bits.
"""

from __future__ import annotations

import platform
import time
import warnings
from abc import ABC, abstractmethod
from functools import cache
from typing import Any, ClassVar, Final

import torch
from jaxtyping import Float, Int8
from torch import Tensor

WEIGHT_LEVELS: Final = 127
"""Of weights, to either side of zero."""
HAS_VNNI: Final = bool(getattr(torch.cpu, "_is_vnni_supported", bool)())
"""Whether the processor is known to add products of bytes in 32 bits."""
INPUT_LEVELS: Final = WEIGHT_LEVELS if HAS_VNNI or platform.machine() not in ("x86_64", "AMD64") else 63
"""Of vectors, to either side of zero: x86 without VNNI adds products of neighbours in 16 bits, which so many fit."""
_TINY: Final = 1e-30
"""Instead of 0, by which nothing is divided."""


class Int8Kernel(ABC):
    """One way to multiply, whose weights are prepared once.

    Args:
        rows: whole numbers from -127 to 127, a row for each number that comes out.
        scale: of each row.
    """

    @abstractmethod
    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None: ...

    @abstractmethod
    def multiply(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "N n"]:
        """x W', fresh, where no entry of x is larger than 1."""

    @classmethod
    def is_supported(cls) -> bool:
        """Whether this build of PyTorch has it and this processor adds without overflow."""
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
    """FBGEMM's, which rounds vectors on the way: the fastest for few of them on x86."""

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        previous_engine = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        try:
            with warnings.catch_warnings():  # that a later PyTorch will do without; then another kernel works
                warnings.simplefilter("ignore")
                quantized = torch._make_per_channel_quantized_tensor(
                    rows, scale.double(), torch.zeros(len(rows), dtype=torch.long), 0
                )
                self._packed = torch.ops.quantized.linear_prepack(quantized, None)
        finally:
            torch.backends.quantized.engine = previous_engine

    def multiply(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "N n"]:
        """x W'."""
        product: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            x, 1 / INPUT_LEVELS, INPUT_LEVELS + 1, self._packed
        )
        return product


class OneDnnKernel(Int8Kernel):
    """oneDNN's product of unsigned and signed bytes, weights packed as it likes: for many vectors and wide matrices."""

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        self._packed = torch.ops.onednn.qlinear_prepack(rows, None)
        self._scale, self._zeros = scale, torch.zeros(len(rows), dtype=torch.long)

    def multiply(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "N n"]:
        """x W'."""
        integers = x.mul(INPUT_LEVELS).round_().add_(INPUT_LEVELS + 1).to(torch.uint8)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            *(integers, 1 / INPUT_LEVELS, INPUT_LEVELS + 1, self._packed, self._scale, self._zeros, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        return product


class TorchInt8Kernel(Int8Kernel):
    """PyTorch's product of bytes with bytes."""

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        self._columns, self._scale = rows.t(), scale / INPUT_LEVELS

    def multiply(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "N n"]:
        """x W'."""
        return torch._int_mm(x.mul(INPUT_LEVELS).round_().to(torch.int8), self._columns) * self._scale


class FloatKernel(Int8Kernel):
    """The same sums in floating point: where nothing multiplies bytes, and for other numbers than those of 32 bits."""

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        self._columns = (rows.float() * (scale / INPUT_LEVELS).unsqueeze(1)).t()

    def multiply(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "N n"]:
        """x W'."""
        return x.mul(INPUT_LEVELS).round_() @ self._columns.to(x.dtype)


@cache
def find_kernels() -> tuple[type[Int8Kernel], ...]:
    """Those that work here, at least one."""
    return tuple(kernel for kernel in (FbgemmKernel, OneDnnKernel, TorchInt8Kernel) if kernel.is_supported()) or (
        FloatKernel,
    )


class Int8Product:
    """x W' + b by the fastest kernel for the number of vectors.

    Which one that is, is measured when a matrix of this shape meets about as many vectors for the first time in this
    process.

    Args:
        rows: of W, whole numbers from -127 to 127.
        scale: of each row.

    Attributes:
        min_elements: numbers of a matrix from which on it is faster than a product of floating-point numbers: the calls around
            it take as long as a product of 256 x 256 does.
    """

    min_elements: ClassVar[int] = 2**17

    _fastest_kernels: ClassVar[dict[tuple[int, ...], type[Int8Kernel]]] = {}

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        self._quantized = (rows, scale)
        self._kernels: dict[type[Int8Kernel], Int8Kernel] = {}

    def __call__(self, x: Float[Tensor, "N k"], bias: Float[Tensor, " n"] | None) -> Float[Tensor, "N n"]:
        """One vector for each."""
        largest = x.abs().amax(-1, keepdim=True).clamp_(min=_TINY)
        product = self._select_kernel(x).multiply(x / largest)
        return product.mul_(largest) if bias is None else torch.addcmul(bias, product, largest, out=product)

    def __deepcopy__(self, _memo: Any) -> Int8Product:
        return type(self)(*self._quantized)

    def _select_kernel(self, x: Tensor) -> Int8Kernel:
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
        prepared = self._get_kernel(kernel)
        x = x / x.abs().amax().clamp(min=_TINY)
        seconds = []
        for _ in range(3):  # the first of which makes ready what the others find
            start = time.perf_counter()
            prepared.multiply(x)
            seconds.append(time.perf_counter() - start)
        return min(seconds)
