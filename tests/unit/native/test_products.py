"""Products in native code, beside whole numbers."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedful.engines.int8 import Int8Linear, Int8Matrix
from heedful.engines.native.linear import NativeLinear, NativeProduct

SHAPES = [(1, 1, 1), (1, 64, 64), (2, 7, 5), (3, 65, 63), (6, 130, 66), (7, 16, 257), (13, 200, 4), (31, 33, 512)]


def rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers and the size of their steps."""
    largest = x.abs().amax(1, keepdim=True).clamp(min=1e-30)
    return (x.double() * (127 / largest).double()).round(), largest.double() / 127


@pytest.mark.parametrize(("count", "n", "k"), SHAPES)
@pytest.mark.parametrize("has_bias", [True, False])
def test_it_is_the_sum_of_whole_numbers(library: Any, count: int, n: int, k: int, has_bias: bool) -> None:
    given = Int8Matrix.from_weight(torch.randn(n, k) * torch.rand(n, 1))
    x = torch.randn(count, k) * 10 ** torch.randn(count, 1)
    bias = torch.randn(n) if has_bias else None
    whole, step = rounded(x)
    expected = (whole @ given.rows.double().t()) * step * given.scale.double() + (0 if bias is None else bias)
    found = NativeProduct(given.rows, given.scale)(x, bias)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("count", "n", "k"), SHAPES)
def test_floats_are_multiplied_as_they_are(library: Any, count: int, n: int, k: int) -> None:
    weight, x, bias = torch.randn(n, k), torch.randn(count, k), torch.randn(n)
    matrix, found = library.Matrix.from_float32(weight.data_ptr(), n, k), torch.empty(count, n)
    library.linear(matrix.address, bias.data_ptr(), x.data_ptr(), count, found.data_ptr(), 1)
    torch.testing.assert_close(found.double(), x.double() @ weight.double().t() + bias, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("count", "n", "k"), SHAPES)
def test_bfloat16_products_round_both_sides_and_no_sum(library: Any, count: int, n: int, k: int) -> None:
    weight, x, bias = torch.randn(n, k), torch.randn(count, k), torch.randn(n)
    matrix, found = library.Matrix.to_bfloat16(weight.data_ptr(), n, k), torch.empty(count, n)
    library.linear(matrix.address, bias.data_ptr(), x.data_ptr(), count, found.data_ptr(), 1)
    expected = x.bfloat16().double() @ weight.bfloat16().double().t() + bias
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_strange_numbers_stay_strange_in_bfloat16(library: Any) -> None:
    weight, x = torch.eye(4), torch.tensor([[torch.nan, 1e39, -1e39, 1 + 2**-9]])
    matrix, found = library.Matrix.to_bfloat16(weight.data_ptr(), 4, 4), torch.empty(1, 4)
    library.linear(matrix.address, None, x.data_ptr(), 1, found.data_ptr(), 1)
    assert found.isnan()[0].tolist() == [True] * 4, "0 times infinity is no number"
    x[0, :3] = torch.tensor([3e38, -0.0, 5.0])
    library.linear(matrix.address, None, x.data_ptr(), 1, found.data_ptr(), 1)
    assert found[0].tolist()[1:] == [0.0, 5.0, 1.0], "half a step is rounded to the even number"


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_native_map_is_the_map_of_pytorch(library: Any, precision: Any) -> None:
    linear = nn.Linear(90, 70)
    native, x = NativeLinear(linear, precision, engine_name="native-float32"), torch.randn(2, 3, 90)
    dtype = getattr(torch, precision)
    with torch.no_grad():
        weight = linear.weight.to(dtype).float()
        torch.testing.assert_close(native(x), nn.functional.linear(x.to(dtype).float(), weight, linear.bias))
        copy = deepcopy(native)
        assert copy.packed_matrix.address != native.packed_matrix.address, "each frees its own"
        assert torch.equal(copy(x), native(x))
        assert torch.equal(native(x.transpose(0, 1)), native(x).transpose(0, 1))
    native(x.requires_grad_()).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, linear.weight.sum(0).expand_as(x))
    assert list(native.state_dict()) == list(linear.state_dict())


def test_zeros_are_zeros_and_nothing_is_nothing(library: Any) -> None:
    given, bias = Int8Matrix.from_weight(torch.randn(5, 9)), torch.randn(5)
    product = NativeProduct(given.rows, given.scale)
    assert torch.equal(product(torch.zeros(2, 9), bias), bias.expand(2, 5))
    assert product(torch.empty(0, 9), bias).shape == (0, 5)


def test_a_vector_does_not_know_its_neighbours_nor_the_number_of_threads(library: Any) -> None:
    given = Int8Matrix.from_weight(torch.randn(300, 520))
    product, x = NativeProduct(given.rows, given.scale), torch.randn(29, 520)
    together = product(x, None)
    assert torch.equal(together, torch.cat([product(row.unsqueeze(0), None) for row in x]))
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert torch.equal(product(x, None), together)
    finally:
        torch.set_num_threads(threads)


def test_instruction_sets_make_the_same_sums(library: Any) -> None:
    given, whole = Int8Matrix.from_weight(torch.randn(70, 90)), torch.randint(-127, 128, (8, 90)).float()
    whole[:, 0] = 127
    own = NativeProduct(given.rows, given.scale)(whole, None)
    library.use("plain")
    torch.testing.assert_close(own, NativeProduct(given.rows, given.scale)(whole, None), rtol=1e-6, atol=0)


def test_a_map_of_bytes_multiplies_by_it_and_copies_have_their_own() -> None:
    linear = Int8Linear(Int8Matrix.from_weight(torch.randn(12, 20)), None, product_class=NativeProduct)
    assert linear.rounds_inputs, "however small"
    x = torch.randn(2, 3, 20)
    copy = deepcopy(linear)
    assert copy.product is not linear.product
    assert isinstance(copy.product, NativeProduct)
    with torch.no_grad():
        assert torch.equal(copy(x), linear(x))
        torch.testing.assert_close(linear(x.double()).float(), linear(x), rtol=0.05, atol=0.1)  # of either rounding


def test_an_instruction_set_that_is_not_here_is_an_error(library: Any) -> None:
    with pytest.raises(ValueError, match=r"^instruction set 'abacus': not here; choose one of .*plain$"):
        library.use("abacus")
