"""Scores at their edges: places, memories that are too long, exponentials that are too large."""

from __future__ import annotations

import math

import pytest
import torch

from heedful.attention import (
    AdditiveScore,
    ConcatScore,
    DotScore,
    ExpDotScore,
    LocationScore,
    normalize_by_sum,
    softmax,
)


def test_a_location_scores_where_a_key_is_and_not_what_or_in_which_column() -> None:
    score = LocationScore(3, 6)
    query, keys = torch.randn(2, 4, 3), torch.randn(2, 5, 8)
    positions = torch.tensor([[0, 1, 2, 3, 4], [-1, 4, 0, 5, 1]])
    found = score(query, score.project(keys, positions))
    every = query @ score.weight.weight.T
    for b, row in enumerate(positions.tolist()):
        for column, position in enumerate(row):
            expected = every[b, :, position] if position >= 0 else torch.zeros(4)
            torch.testing.assert_close(found[b, :, column], expected)
    torch.testing.assert_close(score(query, score.project(keys.neg(), positions)), found)


def test_a_location_counts_columns_where_it_knows_no_positions() -> None:
    score = LocationScore(3, 6)
    query, keys = torch.randn(2, 4, 3), torch.randn(2, 5, 8)
    counted = torch.arange(5).expand(2, -1)
    torch.testing.assert_close(score(query, score.project(keys)), score(query, score.project(keys, counted)))


def test_a_memory_longer_than_a_locations_table_is_refused() -> None:
    score = LocationScore(3, 4)
    assert score.project(torch.randn(1, 4, 2)).shape == (1, 4, 4)
    with pytest.raises(AssertionError, match=r"position 4, .* below 4"):
        score.project(torch.randn(1, 5, 2))
    with pytest.raises(AssertionError, match=r"position 7, .* below 4"):
        score.project(torch.randn(1, 2, 2), torch.tensor([[0, 7]]))
    padded = torch.tensor([[-1, -1, -1, 0, 1, 2, 3]])
    assert score.project(torch.randn(1, 7, 2), padded).sum() == 4


def test_a_location_learns_only_about_places_that_are_there() -> None:
    score = LocationScore(3, 6)
    positions = torch.tensor([[0, 2, -1]])
    score(torch.randn(1, 2, 3), score.project(torch.randn(1, 3, 3), positions)).sum().backward()
    assert score.weight.weight.grad is not None
    assert (score.weight.weight.grad.abs().sum(1) > 0).tolist() == [True, False, True, False, False, False]


def test_concat_is_an_additive_score_whose_maps_are_one_matrix() -> None:
    concat, additive = ConcatScore(3, 4, 5), AdditiveScore(3, 4, 5)
    with torch.no_grad():
        additive.query.weight.copy_(concat.weight.weight[:, :3])
        additive.key.weight.copy_(concat.weight.weight[:, 3:])
        additive.energy.weight.copy_(concat.energy.weight)
    query, keys = torch.randn(2, 6, 3), torch.randn(2, 7, 4)
    found, expected = (score(query, score.project(keys)) for score in (concat, additive))
    torch.testing.assert_close(found, expected)
    assert [name for name, _ in concat.named_parameters()] == ["weight.weight", "energy.weight"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_exponentials_have_finite_sums_and_gradients_however_large_the_dots(dtype: torch.dtype) -> None:
    query = torch.tensor([[[1.0]]], dtype=dtype)
    keys = torch.tensor([[[1e6], [-1e6], [3.0], [80.0], [-80.0], [700.0]]], dtype=dtype, requires_grad=True)
    score = ExpDotScore()
    dots = score(query, score.project(keys))
    assert dots.isfinite().all()
    assert (dots > 0).all()
    assert (dots.sum() * 2**14).isfinite()
    assert dots[0, 0, 2].item() == pytest.approx(math.exp(3), rel=2e-2 if dtype == torch.bfloat16 else 1e-6)
    for visible in (torch.ones(1, 1, 6, dtype=torch.bool), torch.tensor([[[False, True, False, False, True, False]]])):
        weights = normalize_by_sum(dots, visible)
        assert weights.sum().item() == pytest.approx(1, abs=1e-2)
        (gradient,) = torch.autograd.grad(weights[0, 0, 1], keys, retain_graph=True)
        assert gradient.isfinite().all()


def test_exponentials_in_proportion_are_the_softmax_up_to_the_cut() -> None:
    query, keys, score = torch.randn(3, 4, 5), 3 * torch.randn(3, 6, 5), ExpDotScore()
    visible = torch.rand(3, 4, 6) < 0.6
    torch.testing.assert_close(normalize_by_sum(score(query, keys), visible), softmax(DotScore()(query, keys), visible))
