"""Products of bytes: every kernel makes the same sums, and no vector depends on another."""

from __future__ import annotations

import os
from copy import deepcopy

import pytest
import torch
from torch import Tensor

from heedful.engines import int8
from heedful.engines.int8 import (
    HAS_VNNI,
    INPUT_LEVELS,
    FbgemmKernel,
    FloatKernel,
    Int8Kernel,
    Int8Matrix,
    Int8Product,
    OneDnnKernel,
    TorchInt8Kernel,
    find_kernels,
)

EVERY = (FbgemmKernel, OneDnnKernel, TorchInt8Kernel, FloatKernel)


def matrix(n: int = 24, k: int = 40) -> Int8Matrix:
    return Int8Matrix.from_weight(torch.randn(n, k) * torch.rand(n, 1))


@pytest.mark.parametrize("kernel", EVERY)
@pytest.mark.parametrize("count", [1, 2, 7, 33])
def test_a_kernel_makes_the_sums_that_whole_numbers_make(kernel: type[Int8Kernel], count: int) -> None:
    if not kernel.is_supported():
        pytest.skip(f"{kernel.__name__} does not work on this processor")
    given = matrix()
    given.rows[3], given.scale[3] = 0, 0
    whole = torch.randint(-INPUT_LEVELS, INPUT_LEVELS + 1, (count, 40))
    expected = (whole @ given.rows.long().t()).double() * given.scale.double() / INPUT_LEVELS
    found = kernel(given.rows, given.scale).multiply(whole.float() / INPUT_LEVELS)
    # sums of whole numbers are exact, what is left is one rounding of 32 bits
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


def test_one_works_everywhere_and_the_floats_only_where_no_other_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_kernels()
    assert (FloatKernel in find_kernels()) == (find_kernels() == (FloatKernel,))
    for kernel in (FbgemmKernel, OneDnnKernel, TorchInt8Kernel):
        monkeypatch.setattr(kernel, "is_supported", lambda: False)
    assert find_kernels.__wrapped__() == (FloatKernel,)


@pytest.mark.skipif(not HAS_VNNI or "ONEDNN_MAX_CPU_ISA" in os.environ, reason="no fast products of bytes here")
@pytest.mark.parametrize("kernel", [OneDnnKernel, TorchInt8Kernel])
def test_where_products_of_bytes_are_fast_they_are_right(kernel: type[Int8Kernel]) -> None:
    assert kernel.is_supported()


def test_a_kernel_that_overflows_is_none() -> None:
    """As products of unsigned with signed bytes do where neighbours are added in 16 bits."""

    class Overflowing(FloatKernel):
        def multiply(self, x: Tensor) -> Tensor:
            return super().multiply(x).clamp(max=32767 / INPUT_LEVELS)

    class Missing(FloatKernel):
        def multiply(self, x: Tensor) -> Tensor:
            raise RuntimeError("not implemented for this build")

    assert FloatKernel.is_supported()
    assert not Overflowing.is_supported()
    assert not Missing.is_supported()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_comes_of_a_vector_depends_on_no_other(dtype: torch.dtype) -> None:
    product = Int8Product(matrix().rows, matrix().scale)
    x = torch.randn(9, 40, dtype=dtype) * 10.0 ** torch.arange(-4, 5, dtype=dtype).unsqueeze(1)
    bias = torch.randn(24, dtype=dtype)
    together = product(x, bias)
    for each, alone in zip(x, together, strict=True):
        # the same whole numbers; kernels for one and for nine scale them in another order
        torch.testing.assert_close(product(each.unsqueeze(0), bias)[0], alone, rtol=1e-4, atol=1e-5)


def test_it_is_near_the_exact_product_and_of_zeros_it_is_the_bias() -> None:
    weight, bias = torch.randn(24, 400), torch.randn(24)
    given = Int8Matrix.from_weight(weight)
    product = Int8Product(given.rows, given.scale)
    x = torch.randn(5, 400)
    x[2] = 0
    found = product(x, bias)
    torch.testing.assert_close(found[2], bias)
    exact = x @ weight.t() + bias
    # Rounding is off by at most half a step of each: about 1/100 of the spread of sums of 400 products
    assert (found - exact).abs().max() < 0.02 * exact.std() * 3
    torch.testing.assert_close(product(x, None), found - bias, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(product(x.double(), bias.double())[2], bias.double())


def test_the_fastest_kernel_is_looked_for_once_for_each_shape_and_number_of_vectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, int]] = []

    class Other(FloatKernel):
        pass

    def seconds(self: Int8Product, kernel: type[Int8Kernel], x: Tensor) -> float:
        asked.append((kernel.__name__, len(x)))
        return {"FloatKernel": len(x), "Other": 5}[kernel.__name__]

    monkeypatch.setattr(int8, "find_kernels", lambda: (FloatKernel, Other))
    monkeypatch.setattr(Int8Product, "_time_kernel", seconds)
    monkeypatch.setattr(Int8Product, "_fastest_kernels", {})
    given = matrix()
    product = Int8Product(given.rows, given.scale)
    for count in (1, 1, 9, 8):
        product(torch.randn(count, 40), None)
    assert asked == [("FloatKernel", 1), ("Other", 1), ("FloatKernel", 9), ("Other", 9)]
    assert {place[2]: kernel.__name__ for place, kernel in Int8Product._fastest_kernels.items()} == {
        1: "FloatKernel",
        4: "Other",
    }
    another = Int8Product(*(each.clone() for each in (given.rows, given.scale)))
    another(torch.randn(1, 40), None)
    assert len(asked) == 4


def test_a_copy_multiplies_the_same() -> None:
    given, x = matrix(), torch.randn(3, 40)
    product = Int8Product(given.rows, given.scale)
    torch.testing.assert_close(deepcopy(product)(x, None), product(x, None))


def test_pytorch_goes_on_with_its_own_kernels() -> None:
    before = torch.backends.quantized.engine
    FbgemmKernel.is_supported()
    assert torch.backends.quantized.engine == before
