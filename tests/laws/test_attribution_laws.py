"""Laws of attribution: it is weight times word for linear functions, complete, and works with all architectures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from attribution_samples import IDS, METHODS, EmbeddedModel, build_tokens, iter_inspect_calls
from torch import nn

from heedful.attention.positions import SinusoidalPosition
from heedful.inspection.attribution import Method
from heedful.tasks.inspection_records import InspectionSelection


@pytest.mark.parametrize("method", METHODS)
def test_attribution_of_a_linear_function_is_weight_times_word(method: Method) -> None:
    weights, bias = torch.randn(2, len(IDS), 4), torch.tensor([0.5, -2.0])
    model = EmbeddedModel(lambda x: torch.einsum("btd,ntd->bn", x, weights) + bias)
    found = model.attribute(method, steps=1)
    # sums of four products in 32 bits
    np.testing.assert_allclose(
        found.scores, np.einsum("td,ntd->nt", model.words, weights.numpy()), rtol=1e-5, atol=1e-6
    )
    if method == "integrated":
        np.testing.assert_allclose(found.baselines, bias, rtol=1e-6)
        np.testing.assert_allclose(found.values - found.baselines, found.scores.sum(1), rtol=1e-5, atol=1e-6)


def test_integrated_gradients_of_a_cube_are_exact_in_two_steps() -> None:
    """f = (w x)^3 for each token: the gradient times x is 3 f, its mean on the path f; degree 3 needs two points."""
    weights = torch.randn(4)
    model = EmbeddedModel(lambda x: (x @ weights).pow(3).sum(1, keepdim=True))
    cubes = (model.words @ weights.numpy()) ** 3
    np.testing.assert_allclose(model.attribute("gradient").scores[0], 3 * cubes, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.attribute("integrated", steps=2).scores[0], cubes, rtol=1e-4, atol=1e-6)
    one_step = model.attribute("integrated", steps=1).scores[0]  # the gradient at the middle: 3/4
    np.testing.assert_allclose(one_step, 0.75 * cubes, rtol=1e-4, atol=1e-6)


def test_positions_and_norms_do_not_change_and_padding_has_no_score() -> None:
    weights = torch.randn(4)
    model = EmbeddedModel(
        lambda x: (x[:, : len(IDS)] @ weights).tanh().sum(1, keepdim=True),
        position=SinusoidalPosition(4),
        norm=nn.LayerNorm(4),
    )
    found = model.attribute("integrated", steps=64, padding=2)
    assert found.scores.shape == (1, len(IDS) + 2)
    assert not found.scores[:, len(IDS) :].any()
    places = model.embedding.embed_positions(build_tokens().positions, reference=torch.zeros(1))
    assert places is not None
    with torch.no_grad():
        baseline = model.function(model.embedding.norm(places))[0, 0]
    assert found.baselines is not None
    assert found.baselines[0] == pytest.approx(float(baseline), rel=1e-5)
    # the norm of vectors that shrink to those of positions is smooth, so after 64 steps only rounding errors remain
    assert found.values[0] - found.baselines[0] == pytest.approx(found.scores.sum(), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_padding_does_not_change_the_scores_of_tokens(method: Method) -> None:
    """This holds even if the function reads the padding."""
    weights = torch.randn(len(IDS) + 2, 4)
    model = EmbeddedModel(lambda x: torch.einsum("btd,td->b", x, weights).unsqueeze(1))
    found = model.attribute(method, steps=1, padding=2)
    expected = (model.words * weights[: len(IDS)].numpy()).sum(1)
    np.testing.assert_allclose(found.scores[0, : len(IDS)], expected, rtol=1e-5, atol=1e-6)


def test_the_gap_shrinks_with_the_steps() -> None:
    weights = torch.randn(4)
    model = EmbeddedModel(lambda x: (3 * x @ weights).sigmoid().sum(1, keepdim=True))
    gaps = []
    for steps in (1, 2, 4, 8, 32):
        found = model.attribute("integrated", steps=steps)
        assert found.baselines is not None
        gaps.append(abs(float(found.values[0] - found.baselines[0] - found.scores.sum())))
    assert gaps[0] > 1e-3
    assert gaps[2] < gaps[0]
    assert gaps[-1] < 1e-4


FAMILIES = {
    "translation-transformer": 0.1,
    "translation-recurrent": 0.1,
    "translation-convolutional": 0.1,
    "language-transformer": 0.1,
    "language-memory": 0.1,
    "classification": 0.1,
    "classification-self-attentive": 0.1,
    "classification-conditional": 0.1,
    "pretraining-hidden-tokens": 0.1,
    "tagging-transformer": 0.1,
    "spans": 0.1,
}
"""Maximal error of sums in 64 steps. ReLUs and gates have kinks, which rules for smooth functions do not follow;
measured errors are at most 0.05."""


@pytest.mark.parametrize("name", FAMILIES)
def test_all_architectures_have_complete_attributions(name: str) -> None:
    for face, asked, given in iter_inspect_calls(name):
        plain = face.inspect(*asked, **given)
        record = face.inspect(*asked, **given, scope=InspectionSelection(attribution="integrated", steps=64))
        (each,) = record.attributions
        assert replace(record, attributions=(), maps=(), embedded=(), encodings=()) == replace(
            plain, maps=(), embedded=(), encodings=()
        ), "attribution changes nothing else"
        assert np.abs(each.gaps).max() < FAMILIES[name]
        assert np.abs(each.scores).max() > 0
        logs = [written.log_probability for written in record.written]
        if each.about == "answers":
            logs = [float(np.log(answer.options[0].probability)) for answer in record.answers]
            if name == "spans":
                logs[0] = each.values[0]  # the probability of an answer among the best spans
        # one row in a batch of many, in single precision
        np.testing.assert_allclose(each.values, [logs[place] for place in each.places], atol=1e-4)
        (gradient,) = face.inspect(*asked, **given, scope=InspectionSelection(attribution="gradient")).attributions
        np.testing.assert_allclose(gradient.values, each.values, atol=1e-5)
        assert gradient.baselines is gradient.gaps is None
