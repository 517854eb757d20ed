"""The engine `torch-bfloat16`: what it rounds, and what stays in the precision of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from task_runs import create_task_runs
from torch import nn

import heedful
from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import ModelConfig
from heedful.attention.multihead import MultiHeadAttention
from heedful.blocks.recurrent import RecurrentCell
from heedful.engines import int8
from heedful.engines.bfloat16 import BFloat16Attention, BFloat16Linear, convert_to_bfloat16
from heedful.engines.select_engine import detect_engine
from heedful.runs.evaluate import evaluate_run
from heedful.runs.load import open_run
from heedful.tensors import Tokens

SENTENCES = ["march 3, 1999", "3 june 2004", "1 may 1970", "", "on friday"]


@pytest.fixture(name="everything")
def _round_small_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round matrices of any size."""
    monkeypatch.setattr(int8, "MIN_ELEMENTS", 1)


def test_products_are_those_of_rounded_numbers_with_exact_sums() -> None:
    linear, x = nn.Linear(300, 40), torch.randn(2, 5, 300)
    rounded = BFloat16Linear(linear, engine_name="torch-bfloat16")
    expected = x.bfloat16().double() @ linear.weight.bfloat16().double().T + linear.bias.double()
    with torch.no_grad():
        found = rounded(x)
    assert found.dtype == torch.float32
    # A result that was rounded to bf16 would differ by up to 2^-9 of its size, sums in fp32 by 300 roundings of 2^-24.
    torch.testing.assert_close(found, expected.float(), atol=1e-5, rtol=1e-5)
    assert (found - linear(x)).abs().max() > 1e-4, "numbers were rounded"


def test_gradients_pass_through_the_rounded_weight() -> None:
    rounded, x = BFloat16Linear(nn.Linear(30, 4), engine_name="torch-bfloat16"), torch.randn(3, 30, requires_grad=True)
    rounded(x).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, rounded.weight.sum(0).expand(3, -1))
    torch.testing.assert_close(rounded.weight, rounded.weight.bfloat16().float(), atol=0.0, rtol=0.0)


def test_a_tied_embedding_is_not_rounded(everything: None) -> None:
    model = nn.ModuleDict({"table": nn.Embedding(50, 8), "output": nn.Linear(8, 50, bias=False)})
    model["output"].weight = model["table"].weight
    before = model["table"].weight.detach().clone()
    convert_to_bfloat16(model)
    assert isinstance(model["output"], BFloat16Linear)
    torch.testing.assert_close(model["table"].weight, before, atol=0.0, rtol=0.0)


def test_recurrent_cells_keep_their_kernel(everything: None) -> None:
    config = TypeAdapter(ModelConfig).validate_python({"kind": "recurrent", "d_model": 8})
    model = build_sequence_to_sequence(config, DataSizes(7, 7, 24))
    convert_to_bfloat16(model)
    cells = [module for module in model.modules() if isinstance(module, RecurrentCell)]
    assert cells
    assert all(cell.uses_kernel and type(child) is nn.Linear for cell in cells for child in cell.children())
    assert any(isinstance(module, BFloat16Linear) for module in model.modules())


def test_a_run_translates_in_bf16(everything: None, trained: Path) -> None:
    exact = heedful.load(trained, kind=heedful.Translator, device="cpu", engine="torch")
    found = heedful.load(trained, kind=heedful.Translator, device="cpu", engine="torch-bfloat16")
    model: Any = found.models[0]
    assert detect_engine(model.modules()) == "torch-bfloat16"
    assert not any(type(module) in (nn.Linear, MultiHeadAttention) for module in model.modules())
    mine, others = found.translate(SENTENCES), exact.translate(SENTENCES)
    assert [each.text for each in mine] == [other.text for other in others]
    for each, other in zip(mine, others, strict=True):
        for candidate, expected in zip(each.candidates, other.candidates, strict=True):
            # bf16 has steps of 2^-8; a log-probability is a difference of sums of a few hundred rounded numbers
            assert candidate.score == pytest.approx(expected.score, abs=0.1)
    pairs = list(zip(SENTENCES[:3], [each.text for each in others[:3]], strict=True))
    for aligned, expected in zip(found.align_all(pairs), exact.align_all(pairs), strict=True):
        for name, weights in aligned.weights.items():
            assert weights == pytest.approx(expected.weights[name], abs=0.05)


def test_logits_are_in_single_precision_and_keys_are_cached_in_bf16(everything: None, trained: Path) -> None:
    model: Any = heedful.load(trained, device="cpu", engine="torch-bfloat16").models[0]
    source = Tokens(torch.tensor([[4, 5, 6]]), torch.tensor([[0, 1, 2]]))
    with torch.inference_mode():
        logits, state = model.step(source, model.init_state(source))
    assert logits.dtype == torch.float32
    assert not torch.equal(logits, logits.bfloat16().float()), "logits were rounded to bf16"
    assert {layer.past.key.dtype for layer in state.layers} == {torch.bfloat16}
    assert {layer.memories["source"].value.dtype for layer in state.layers} == {torch.bfloat16}
    assert all(isinstance(module, BFloat16Attention) for module in model.modules() if hasattr(module, "project_memory"))


def test_every_task_computes_in_bf16(everything: None, tmp_path: Path) -> None:
    """Losses of random weights change by less than a step of bf16; scores, such as accuracy, by single outputs."""
    for action, folder in create_task_runs(tmp_path).items():
        run = open_run(folder)
        (_, expected), (_, found) = (
            evaluate_run(run, device="cpu", engine=engine, say=lambda _: None) for engine in ("torch", "torch-bfloat16")
        )
        assert found["loss"] == pytest.approx(expected["loss"], rel=2**-8), action
        assert found.keys() == expected.keys()
