"""What recurrent models begin with: each paper's numbers, parameter by parameter."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.architectures.build import DataSizes
from heedful.architectures.build_recurrent import build_recurrent_model
from heedful.architectures.recurrent import RecurrentConfig
from heedful.tensors import Tokens

WIDTH = 64
SIZES = DataSizes(211, 197, 30)
MODELS: dict[str, dict[str, Any]] = {
    "additive": {"tie": "none", "layers": 2},
    "concat-lstm": {"tie": "two_way", "cell": "lstm", "reading": {"kind": "luong", "score": "concat"}},
    "general-elman": {"tie": "none", "cell": "elman", "reading": {"kind": "luong", "window": "predicted"}},
    "location": {"tie": "two_way", "reading": {"kind": "luong", "score": "location", "input_feeding": False}},
    "context": {"tie": "none", "cell": "lstm", "reading": {"kind": "context"}, "bidirectional": False},
    "chain": {"tie": "none", "reading": {"kind": "bahdanau", "weights": "linear_chain"}},
}


def built(*, seed: int = 1, **options: Any) -> Any:
    torch.manual_seed(seed)
    return build_recurrent_model(
        RecurrentConfig.model_validate({"d_model": WIDTH, "d_embedding": 48, **options}), SIZES
    )


def moments(values: Tensor) -> tuple[float, float]:
    flat = values.detach().double().flatten()
    return float(flat.mean()), float(flat.std())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("paper", "bound"), [("luong", 0.1), ("sutskever", 0.08)])
def test_all_numbers_are_uniform_within_the_papers_bound(name: str, paper: str, bound: float) -> None:
    model = built(initialisation=paper, **MODELS[name])
    for place, parameter in model.named_parameters():
        assert float(parameter.detach().abs().max()) <= bound, place
        if parameter.numel() < 100:
            assert float(parameter.detach().abs().min()) > 0, place
            continue
        mean, deviation = moments(parameter)
        standard = bound / math.sqrt(3)
        assert abs(mean) < 5 * standard / math.sqrt(parameter.numel()), place
        # the variance of the square of a uniform number is 4/45 bound^4
        assert abs(deviation**2 - standard**2) < 5 * bound**2 * math.sqrt(4 / 45 / parameter.numel()), place
        assert float(parameter.detach().abs().max()) > 0.9 * bound, place


@pytest.mark.parametrize("name", MODELS)
def test_bahdanaus_numbers(name: str) -> None:
    """Bahdanau et al. 2015, B.1."""
    model = built(initialisation="bahdanau", **MODELS[name])
    kinds: dict[str, int] = {"orthogonal": 0, "zero": 0, "score": 0, "other": 0}
    for place, parameter in model.named_parameters():
        values = parameter.detach()
        if place.endswith("recurrent.weight"):
            kinds["orthogonal"] += 1
            for gate in values.split(WIDTH):
                torch.testing.assert_close(gate @ gate.T, torch.eye(WIDTH), rtol=0, atol=1e-5, msg=place)
        elif place.endswith(("bias", "energy.weight")):
            kinds["zero"] += 1
            assert not values.any(), place
        else:
            is_score = ".score." in place
            kinds["score" if is_score else "other"] += 1
            standard = 0.001 if is_score else 0.01
            mean, deviation = moments(values)
            count = values.numel()
            assert abs(mean) < 5 * standard / math.sqrt(count), place
            if count > 50:
                assert deviation == pytest.approx(standard, rel=5 / math.sqrt(2 * count)), place
                assert float(values.abs().max()) > 1.8 * standard, f"{place}: no uniform distribution is so wide"
    assert kinds["orthogonal"] >= 2
    assert kinds["zero"] >= 3
    assert kinds["score"] == {"additive": 2, "chain": 2, "context": 0}.get(name, 1)
    assert kinds["other"] >= 5


def test_with_bahdanaus_numbers_attention_begins_uniform_and_its_vector_learns_first() -> None:
    model = built(initialisation="bahdanau")
    score = model.decoder.reading.across.score
    query, keys = torch.randn(2, 3, WIDTH), torch.randn(2, 5, 2 * WIDTH)
    energies = score(query, score.project(keys))
    assert not energies.any()
    energies[..., 0].sum().backward()
    assert score.energy.weight.grad.any()
    assert not score.query.weight.grad.any()


@pytest.mark.parametrize("paper", ["bahdanau", "luong", "sutskever"])
def test_a_papers_embeddings_are_read_as_they_are(paper: str) -> None:
    """And the modern ones, rows of length 1, with numbers around 1."""
    tokens = Tokens.from_ids(torch.randint(1, 197, (3, 4)), pad=0)
    for embedding in (built(initialisation=paper).encoder.embedding, built(initialisation=paper).decoder.embedding):
        torch.testing.assert_close(embedding.eval()(tokens), embedding.table.weight[tokens.ids])
    modern = built().encoder.embedding.eval()
    torch.testing.assert_close(modern(tokens), modern.table.weight[tokens.ids] * math.sqrt(48))


@pytest.mark.parametrize("name", MODELS)
def test_nothing_changed_where_nothing_is_said(name: str) -> None:
    """The default is what the parts begin with, draw by draw."""
    model, same = built(**MODELS[name]), built(initialisation="modern", **MODELS[name])
    named = dict(model.named_parameters())
    for place, parameter in same.named_parameters():
        assert torch.equal(parameter, named[place]), place
        if place.endswith("cell.input.weight"):
            for gate in parameter.detach().split(WIDTH):
                bound = math.sqrt(6 / sum(gate.shape))
                assert 0.95 * bound < float(gate.abs().max()) <= bound, place
        elif place.endswith("cell.input.bias") and MODELS[name].get("cell") == "lstm":
            assert parameter.tolist() == [0.0] * WIDTH + [1.0] * WIDTH + [0.0] * 2 * WIDTH
        elif place.endswith("recurrent.weight"):
            gate = parameter.detach()[:WIDTH]
            torch.testing.assert_close(gate @ gate.T, torch.eye(WIDTH), rtol=0, atol=1e-5)
        elif place.endswith("table.weight"):
            assert float(parameter.detach().norm(dim=1).mean()) == pytest.approx(1, abs=0.03)
