"""Pointer-generator models, compared with the equations of See et al. 2017, written as loops over tokens."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from untrained_runs import create_translation_run

import heedful
from heedful.architectures.build import build_sequence_to_sequence
from heedful.architectures.interface import DataSizes
from heedful.architectures.model import ConvolutionalConfig, TransformerConfig
from heedful.architectures.recurrent import RecurrentConfig
from heedful.errors import RunError
from heedful.models.pointer_generator import PointerGenerator
from heedful.runs.export import export_ctranslate2, export_hugging_face, export_onnx
from heedful.tensors import Tokens

VOCABULARY, PAD = 11, 0
COMMON: dict[str, Any] = {"copy": True, "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
CONFIGS: dict[str, Any] = {
    "transformer": TransformerConfig(**COMMON, heads=2, d_ff=16),
    "recurrent": RecurrentConfig(**COMMON),
    "reversed": RecurrentConfig(**COMMON, source_order="reversed", reading={"kind": "luong"}),
    "convolutional": ConvolutionalConfig(**COMMON),
}
SOURCE = Tokens.from_ids(torch.tensor([[4, 5, 4, 2, PAD, PAD], [7, 8, 7, 7, 9, 2]]), pad=PAD)
TARGET = Tokens.from_ids(torch.tensor([[1, 4, 5, 6], [1, 7, 3, 8]]), pad=PAD)


@pytest.fixture(params=CONFIGS, name="model")
def build_model(request: pytest.FixtureRequest) -> PointerGenerator:
    torch.manual_seed(3)
    model = build_sequence_to_sequence(CONFIGS[request.param], DataSizes(VOCABULARY, VOCABULARY, 12)).double().eval()
    assert isinstance(model, PointerGenerator)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)  # gates and pointers that are far from uniform
    return model


def compute_naively(model: PointerGenerator) -> tuple[Tensor, Tensor]:
    """Return p(w) of each target token by equations 8 and 9, one token and one source slot at a time, and p_gen."""
    memory = model.encoder(SOURCE)
    hidden = model(SOURCE, TARGET)
    matrix = model.pointer.score.get_submodule("weight").weight
    result = torch.zeros(*TARGET.ids.shape, VOCABULARY, dtype=torch.float64)
    gates = torch.zeros(TARGET.ids.shape, dtype=torch.float64)
    for row in range(2):
        slots = [slot for slot in range(6) if int(SOURCE.positions[row, slot]) >= 0]
        for column in range(4):
            state = hidden[row, column]
            energies = [float(state @ (matrix @ memory.keys[row, slot])) for slot in slots]
            total = math.fsum(math.exp(energy) for energy in energies)
            weights = [math.exp(energy) / total for energy in energies]
            context = sum(weight * memory.values[row, slot] for weight, slot in zip(weights, slots, strict=True))
            assert isinstance(context, Tensor)
            logit = model.gate.linear.weight[0] @ torch.cat((state, context)) + model.gate.linear.bias[0]
            gate = 1 / (1 + math.exp(-float(logit)))
            result[row, column] = gate * model.output(state).softmax(0)
            for weight, slot in zip(weights, slots, strict=True):
                result[row, column, SOURCE.ids[row, slot]] += (1 - gate) * weight
            gates[row, column] = gate
    return result, gates


@torch.no_grad()
def test_the_distributions_are_those_of_the_paper(model: PointerGenerator) -> None:
    expected, gates = compute_naively(model)
    torch.testing.assert_close(expected.sum(-1), torch.ones(2, 4, dtype=torch.float64))
    assert 0.05 < gates.min() < gates.max() < 0.95, "both ways must count, or the test sees only one"
    log_probabilities, _ = model.step(TARGET, model.init_state(SOURCE))
    torch.testing.assert_close(log_probabilities.exp(), expected)
    torch.testing.assert_close(model.predict(SOURCE, TARGET).compute_log_probabilities().exp(), expected.flatten(0, 1))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_and_its_gradient_are_those_of_the_distributions(
    model: PointerGenerator, monkeypatch: pytest.MonkeyPatch, smoothing: float, weighted: bool
) -> None:
    monkeypatch.setattr("heedful.models.predictions._CPU_CHUNK_ROWS", 3)
    labels, rows = torch.tensor([5, 6, 2, 3, 8]), torch.tensor([1, 2, 4, 5, 7])
    weights = torch.tensor([1.0, 0.5, 2.0, 0.0, 3.0]) if weighted else None
    predictions = model.predict(SOURCE, TARGET).select(rows).with_weights(weights)
    loss, nll = predictions.compute_cross_entropy(labels, smoothing=smoothing)
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)

    log_p = model.step(TARGET, model.init_state(SOURCE))[0].flatten(0, 1)[rows]
    likelihoods = log_p[torch.arange(5), labels]
    terms = (1 - smoothing) * likelihoods + smoothing * log_p.mean(1)
    expected = -(terms if weights is None else terms * weights).sum()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, -likelihoods.sum())
    assert not nll.requires_grad
    for gradient, other in zip(
        found, torch.autograd.grad(expected, list(model.parameters()), allow_unused=True), strict=True
    ):
        assert (gradient is None) == (other is None)
        if gradient is not None:
            torch.testing.assert_close(gradient, other)
    scored, hits = predictions.score_labels(labels)
    torch.testing.assert_close(scored, nll)
    assert int(hits) == int((log_p.argmax(1) == labels).sum())
    torch.testing.assert_close(predictions.compute_log_likelihoods(labels), likelihoods.detach())


@torch.no_grad()
def test_a_token_that_no_softmax_gives_can_be_copied(model: PointerGenerator) -> None:
    """Where the probability of generating a token underflows, its logarithm and the gradient of that stay finite."""
    model.output = torch.nn.Linear(8, VOCABULARY)
    torch.nn.init.zeros_(model.output.weight)
    model.output.bias.copy_(torch.where(torch.arange(VOCABULARY) == 3, 500.0, -500.0))
    model.float()
    with torch.enable_grad():
        predictions = model.predict(SOURCE, TARGET)
        log_p = predictions.compute_log_probabilities()
        assert log_p.isfinite().all()
        log_p[:, [4, 10]].sum().backward()
    assert all(each.grad is None or each.grad.isfinite().all() for each in model.parameters())
    in_source, not_there = log_p.view(2, 4, -1)[0, :, [4, 5]], log_p.view(2, 4, -1)[0, :, 10]
    assert (in_source > -20).all()
    assert (not_there < -80).all()


def test_a_stored_run_copies_and_other_formats_refuse_it(tmp_path: Path) -> None:
    pairs = [("a b c d", "d c b a"), ("b a", "a b"), ("c d a", "a d c")]
    run = create_translation_run(tmp_path, pairs, model={"copy": True})
    translator = heedful.load(run, kind=heedful.Translator, device="cpu")
    assert isinstance(translator.models[0], PointerGenerator)
    quantized = heedful.load(run, kind=heedful.Translator, device="cpu", engine="int8")
    scores, rounded = (
        [score.token_log_probabilities for score in each.score(pairs)] for each in (translator, quantized)
    )
    for row, other in zip(scores, rounded, strict=True):
        assert row == pytest.approx(other, abs=0.5), "8-bit weights of random models are rough"
    assert [each.text for each in translator.translate(["a b"])] == [
        each.text for each in heedful.load(run, kind=heedful.Translator, device="cpu").translate(["a b"])
    ]
    for name, export in (
        ("CTranslate2", export_ctranslate2),
        ("the export to ONNX", export_onnx),
        ("MarianMT", export_hugging_face),
    ):
        with pytest.raises(RunError, match=rf"model\.copy = True: {name} has only False; train a model with that"):
            export(run, tmp_path / "there")
