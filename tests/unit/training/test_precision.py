from __future__ import annotations

import pytest
import torch
from torch import nn

from heedful.training.precision import BF16WithMasters, FullPrecision, has_fast_bf16, is_faster_in_bf16


def backward(model: nn.Linear, x: torch.Tensor) -> None:
    model(x.to(model.weight.dtype)).square().sum().backward()


def test_exact_masters_are_the_parameters_themselves() -> None:
    model = nn.Linear(3, 2)
    precision = FullPrecision(model)
    assert precision.masters["weight"] is model.weight
    backward(model, torch.randn(5, 3))
    precision.collect_gradients()
    assert model.weight.grad is not None


def test_half_gradients_are_summed_in_single_precision() -> None:
    model = nn.Linear(3, 2)
    precision = BF16WithMasters(model)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert {m.dtype for m in precision.masters.values()} == {torch.float32}
    expected = torch.zeros(2, 3)
    for scale in (1.0, 1e-3, 1e-3):  # sums that bf16, with its 8 bits, would swallow
        backward(model, scale * torch.ones(1, 3))
        assert model.weight.grad is not None
        expected += model.weight.grad.float()
        precision.collect_gradients()
        assert model.weight.grad is None, "or the next pass would add to it in bf16"
    gradient = precision.masters["weight"].grad
    assert gradient is not None
    assert gradient.dtype == torch.float32
    torch.testing.assert_close(gradient, expected, rtol=0, atol=0)
    assert not torch.equal(gradient, gradient.bfloat16().float()), "this test must see the difference"


def test_small_steps_are_not_lost_to_rounding() -> None:
    model = nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.fill_(1.0)
    precision = BF16WithMasters(model)
    for _ in range(100):
        precision.masters["weight"].add_(1e-3)  # 1 + 1e-3 is 1 in bf16
        precision.copy_to_model()
    torch.testing.assert_close(precision.masters["weight"], torch.full((2, 2), 1.1))
    torch.testing.assert_close(model.weight.detach(), torch.full((2, 2), 1.1).bfloat16(), rtol=0, atol=0)


def test_tied_parameters_stay_tied() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
            self.second.weight = self.first.weight

    model = Tied()
    precision = BF16WithMasters(model)
    assert model.second.weight is model.first.weight
    assert list(precision.masters) == ["first.weight"]
    precision.masters["first.weight"].zero_()
    precision.copy_to_model()
    assert model.second.weight.abs().sum() == 0


@pytest.mark.parametrize("supported", [True, False])
def test_bf16_is_fast_only_where_the_processor_multiplies_it(monkeypatch: pytest.MonkeyPatch, supported: bool) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: supported, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False, raising=False)
    assert has_fast_bf16(torch.device("cpu")) is supported
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert not has_fast_bf16(torch.device("cpu"))
    assert not has_fast_bf16(torch.device("meta"))


@pytest.mark.parametrize("kind", [FullPrecision, BF16WithMasters])
def test_what_is_frozen_has_a_master_but_is_not_trainable(kind: type[FullPrecision | BF16WithMasters]) -> None:
    model = nn.Linear(2, 3)
    model.weight.requires_grad_(False)
    precision = kind(model)
    assert (set(precision.masters), set(precision.trainable)) == ({"weight", "bias"}, {"bias"})
    assert precision.trainable["bias"] is precision.masters["bias"]


@pytest.mark.parametrize(
    ("model", "faster"),
    [
        (nn.Linear(128, 128), True),
        (nn.Linear(127, 4096), False),
        (nn.Sequential(nn.Embedding(8000, 64), nn.Linear(64, 512), nn.LayerNorm(512)), False),
        (nn.Sequential(nn.Embedding(8000, 64), nn.LSTM(64, 128)), True),
        (nn.Conv1d(32, 300, 5), True),
        (nn.LayerNorm(512), False),
    ],
)
def test_on_a_processor_only_wide_models_gain_from_bf16(
    monkeypatch: pytest.MonkeyPatch, model: nn.Module, faster: bool
) -> None:
    monkeypatch.setattr("heedful.training.precision.has_fast_bf16", lambda device: device.type != "meta")
    assert is_faster_in_bf16(model, torch.device("cpu")) is faster
    assert is_faster_in_bf16(model, torch.device("cuda"))
    assert not is_faster_in_bf16(model, torch.device("meta"))
