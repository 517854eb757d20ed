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

STEPS: Final = 127
"""Of weights, to either side of zero."""
HAS_VNNI: Final = bool(getattr(torch.cpu, "_is_vnni_supported", bool)())
"""Whether the processor is known to add products of bytes in 32 bits."""
LEVELS: Final = STEPS if HAS_VNNI or platform.machine() not in ("x86_64", "AMD64") else 63
"""Of vectors, to either side of zero: x86 without VNNI adds products of neighbours in 16 bits, which so many fit."""
_TINY: Final = 1e-30
"""Instead of 0, by which nothing is divided."""


class Kernel(ABC):
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
    def works(cls) -> bool:
        """Whether this build of PyTorch has it and this processor adds without overflow."""
        generator = torch.Generator().manual_seed(0)
        rows = torch.randint(-STEPS, STEPS + 1, (24, 64), generator=generator, dtype=torch.int8)
        whole = torch.randint(-LEVELS, LEVELS + 1, (8, 64), generator=generator, dtype=torch.int8)
        rows[0], rows[1], whole[0], whole[1] = STEPS, -STEPS, LEVELS, -LEVELS
        expected = whole.float() @ rows.float().t()
        try:
            found = cls(rows, torch.ones(len(rows))).multiply(whole / LEVELS) * LEVELS
        except (RuntimeError, AttributeError, NotImplementedError, TypeError):
            return False
        return bool(torch.allclose(found, expected, rtol=1e-5, atol=1e-2))  # whole numbers, in 32 bits


class Fbgemm(Kernel):
    """FBGEMM's, which rounds vectors on the way: the fastest for few of them on x86."""

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        try:
            with warnings.catch_warnings():  # that a later PyTorch will do without; then another kernel works
                warnings.simplefilter("ignore")
                quantized = torch._make_per_channel_quantized_tensor(
                    rows, scale.double(), torch.zeros(len(rows), dtype=torch.long), 0
                )
                self._packed = torch.ops.quantized.linear_prepack(quantized, None)
        finally:
            torch.backends.quantized.engine = before

    def multiply(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "N n"]:
        """x W'."""
        product: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            x, 1 / LEVELS, LEVELS + 1, self._packed
        )
        return product


class OneDnn(Kernel):
    """oneDNN's product of unsigned and signed bytes, weights packed as it likes: for many vectors and wide matrices."""

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        self._packed = torch.ops.onednn.qlinear_prepack(rows, None)
        self._scale, self._zeros = scale, torch.zeros(len(rows), dtype=torch.long)

    def multiply(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "N n"]:
        """x W'."""
        whole = x.mul(LEVELS).round_().add_(LEVELS + 1).to(torch.uint8)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            *(whole, 1 / LEVELS, LEVELS + 1, self._packed, self._scale, self._zeros, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        return product


class Plain(Kernel):
    """PyTorch's product of bytes with bytes."""

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        self._columns, self._scale = rows.t(), scale / LEVELS

    def multiply(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "N n"]:
        """x W'."""
        return torch._int_mm(x.mul(LEVELS).round_().to(torch.int8), self._columns) * self._scale


class Floats(Kernel):
    """The same sums in floating point: where nothing multiplies bytes, and for other numbers than those of 32 bits."""

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        self._columns = (rows.float() * (scale / LEVELS).unsqueeze(1)).t()

    def multiply(self, x: Float[Tensor, "N k"]) -> Float[Tensor, "N n"]:
        """x W'."""
        return x.mul(LEVELS).round_() @ self._columns.to(x.dtype)


@cache
def kernels() -> tuple[type[Kernel], ...]:
    """Those that work here, at least one."""
    return tuple(kernel for kernel in (Fbgemm, OneDnn, Plain) if kernel.works()) or (Floats,)


class Product:
    """x W' + b by the fastest kernel for the number of vectors.

    Which one that is, is measured when a matrix of this shape meets about as many vectors for the first time in this
    process.

    Args:
        rows: of W, whole numbers from -127 to 127.
        scale: of each row.

    Attributes:
        worth: numbers of a matrix from which on it is faster than a product of floating-point numbers: the calls around
            it take as long as a product of 256 x 256 does.
    """

    worth: ClassVar[int] = 2**17

    _fastest: ClassVar[dict[tuple[int, ...], type[Kernel]]] = {}

    def __init__(self, rows: Int8[Tensor, "n k"], scale: Float[Tensor, " n"]) -> None:
        self._given = (rows, scale)
        self._ready: dict[type[Kernel], Kernel] = {}

    def __call__(self, x: Float[Tensor, "N k"], bias: Float[Tensor, " n"] | None) -> Float[Tensor, "N n"]:
        """One vector for each."""
        largest = x.abs().amax(-1, keepdim=True).clamp_(min=_TINY)
        product = self._kernel(x).multiply(x / largest)
        return product.mul_(largest) if bias is None else torch.addcmul(bias, product, largest, out=product)

    def __deepcopy__(self, _memo: Any) -> Product:
        return type(self)(*self._given)

    def _kernel(self, x: Tensor) -> Kernel:
        if x.dtype != torch.float32:
            return self._prepared(Floats)
        place = (*self._given[0].shape, len(x).bit_length(), torch.get_num_threads())
        found = self._fastest.get(place)
        if found is None:
            found = self._fastest[place] = min(kernels(), key=lambda kernel: self._seconds(kernel, x))
        return self._prepared(found)

    def _prepared(self, kernel: type[Kernel]) -> Kernel:
        ready = self._ready.get(kernel)
        if ready is None:
            ready = self._ready[kernel] = kernel(*self._given)
        return ready

    def _seconds(self, kernel: type[Kernel], x: Tensor) -> float:
        prepared = self._prepared(kernel)
        x = x / x.abs().amax().clamp(min=_TINY)
        seconds = []
        for _ in range(3):  # the first of which makes ready what the others find
            began = time.perf_counter()
            prepared.multiply(x)
            seconds.append(time.perf_counter() - began)
        return min(seconds)
