"""Models whose matrices are bytes: what they compute, what they share, what stays exact."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.blocks.recurrent import GRU, LSTM, BidirectionalLayer, Elman
from heedful.engines import int8
from heedful.engines.int8 import (
    INPUT_LEVELS,
    WEIGHT_LEVELS,
    Int8Embedding,
    Int8Linear,
    Int8Matrix,
    Int8Product,
    find_quantizable,
    quantize_to_int8,
)
from heedful.models.generative import SequenceToSequence
from heedful.tensors import Tokens


@pytest.fixture(autouse=True)
def _all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "MIN_ELEMENTS", 1)
    monkeypatch.setattr(Int8Product, "min_elements", 1)


def model(**options: Any) -> SequenceToSequence[Tokens]:
    config = TransformerConfig.model_validate({"d_model": 32, "heads": 2, "layers": 2, **options})
    return build_sequence_to_sequence(config, DataSizes(13, 13, 9)).eval()


def logits(made: SequenceToSequence[Tokens]) -> Tensor:
    source, target = (
        Tokens.from_ids(torch.tensor(ids), pad=0) for ids in ([[4, 5, 6], [7, 8, 0]], [[1, 9, 3], [1, 2, 11]])
    )
    found, _ = made.step(target, made.init_state(source))
    return found


def test_the_nearest_bytes_are_off_by_half_a_step_and_use_the_whole_range() -> None:
    weight = torch.randn(6, 50) * 10.0 ** torch.arange(-3, 3).unsqueeze(1)
    weight[4] = 0
    found = Int8Matrix.from_weight(weight)
    assert found.rows.dtype == torch.int8
    assert found.rows.abs().amax(1).tolist() == [127, 127, 127, 127, 0, 127]
    error = (found.dequantize() - weight).abs()
    assert (error <= found.scale.unsqueeze(1) * 0.5001).all()
    again = Int8Matrix.from_weight(found.dequantize())
    assert torch.equal(again.rows, found.rows)
    torch.testing.assert_close(again.scale, found.scale)


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"tie": "none", "output_bias": True}, {"aggregation": "concat"}], ids=str)
def test_a_model_of_bytes_says_nearly_what_it_said(options: dict[str, Any]) -> None:
    made = model(**options)
    before = logits(made)
    names = find_quantizable(made).keys()
    quantize_to_int8(made)
    assert not [name for name, module in made.named_modules() if type(module) in (nn.Linear, nn.Embedding)]
    assert all(type(made.get_submodule(name)) in (Int8Linear, Int8Embedding) for name in names)
    after = logits(made)
    # hundredths of what logits differ by: each product is off by about half a step of its vectors
    assert (after - before).abs().mean() < 0.02 * WEIGHT_LEVELS / INPUT_LEVELS * before.std()
    assert (after - before).abs().max() > 0


@torch.no_grad()
def test_tied_weights_are_one_matrix_and_a_module_in_two_places_stays_one() -> None:
    made = model(tie="three_way")
    quantize_to_int8(made)
    table, output = made.encoder.stack.embedding.table, made.output
    assert table is made.decoder.stack.embedding.table
    assert isinstance(table, Int8Embedding)
    assert isinstance(output, Int8Linear)
    assert output.matrix is table.matrix
    torch.testing.assert_close(output.weight, table.weight)
    torch.testing.assert_close(table(torch.tensor([3, 5])), table.weight[[3, 5]])


@torch.no_grad()
def test_only_large_matrices_become_bytes_and_only_larger_ones_round_what_they_meet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(int8, "MIN_ELEMENTS", 32 * 32 + 1)
    made = model()
    quantize_to_int8(made)
    kinds = {name: type(module) for name, module in made.named_modules() if isinstance(module, nn.Linear)}
    assert kinds["encoder.stack.layers.0.attention.query"] is nn.Linear
    assert kinds["encoder.stack.layers.0.attention.key_value"] is Int8Linear
    monkeypatch.setattr(Int8Product, "min_elements", 100)
    x, weight = torch.randn(3, 10), torch.randn(9, 10)
    small = Int8Linear(Int8Matrix.from_weight(weight), None)
    torch.testing.assert_close(small(x), x @ Int8Matrix.from_weight(weight).dequantize().t())
    large = Int8Linear(Int8Matrix.from_weight(torch.cat((weight, weight))), None)
    assert (large(x)[:, :9] - small(x)).abs().max() > 1e-4


@torch.no_grad()
@pytest.mark.parametrize("name", ["elman", "gru", "lstm"])
def test_cells_whose_vectors_are_rounded_advance_step_by_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = {"elman": Elman, "gru": GRU, "lstm": LSTM}
    exact = BidirectionalLayer(cells[name](6, 8), cells[name](6, 8)).double()
    rounded = deepcopy(exact)
    monkeypatch.setattr(Int8Product, "min_elements", 10**9)
    quantize_to_int8(exact)
    assert exact.left_to_right.uses_kernel
    monkeypatch.setattr(Int8Product, "min_elements", 1)
    quantize_to_int8(rounded)
    assert not rounded.left_to_right.uses_kernel
    x = torch.randn(3, 5, 6, dtype=torch.float64)
    positions = torch.tensor([[0, 1, 2, 3, 4], [-1, 0, 1, -1, -1], [-1, -1, -1, -1, -1]])
    outputs, state = exact(x, exact.init_state(3, x), positions=positions)
    near, after = rounded(x, rounded.init_state(3, x), positions=positions)
    assert not near[positions < 0].any()
    for one, other in ((outputs, near), *zip(state, after, strict=True)):
        # five steps, each off by about 1/250 of what enters the gates
        assert (one - other).abs().max() < 0.05
        assert one.shape == other.shape
    for each in exact.children():
        each.uses_kernel = False
    again, state_again = exact(x, exact.init_state(3, x), positions=positions)
    torch.testing.assert_close(again, outputs)
    for one, other in zip(state, state_again, strict=True):
        torch.testing.assert_close(other, one)


def test_gradients_of_what_is_read_are_those_of_the_rounded_weights() -> None:
    weight, x = torch.randn(4, 10), torch.randn(2, 10, requires_grad=True)
    linear = Int8Linear(Int8Matrix.from_weight(weight), nn.Parameter(torch.randn(4)))
    with torch.inference_mode():  # as an answer before an inspection
        functional.linear(x.detach(), linear.weight)
    linear(x).sum().backward()
    torch.testing.assert_close(x.grad, Int8Matrix.from_weight(weight).dequantize().sum(0).expand(2, -1))


def test_what_is_stored_is_taken_instead_of_rounding_again() -> None:
    made, other = model(tie="three_way"), model(tie="three_way")
    stored = {
        "decoder.stack.embedding.table.weight": Int8Matrix.from_weight(torch.randn(13, 32)),
        "encoder.stack.layers.0.feed_forward.inner.weight": Int8Matrix.from_weight(torch.randn(128, 32)),
    }
    quantize_to_int8(made, stored)
    assert made.output.matrix is stored["decoder.stack.embedding.table.weight"]
    assert made.encoder.stack.layers[0].feed_forward.inner.matrix is list(stored.values())[1]
    expected = Int8Matrix.from_weight(other.encoder.stack.layers[1].feed_forward.inner.weight)
    assert made.encoder.stack.layers[1].feed_forward.inner.matrix.rows.shape == expected.rows.shape


def test_a_model_of_bytes_does_not_learn() -> None:
    made = model()
    quantize_to_int8(made)
    assert not [parameter for parameter in made.parameters() if parameter.requires_grad]
