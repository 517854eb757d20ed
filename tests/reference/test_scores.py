"""Scores, normalizers and single attention compared with their equations, one query and one key at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from heedful.attention import (
    AdditiveScore,
    Attention,
    AttentionScore,
    ConcatScore,
    DotScore,
    ExpDotScore,
    GeneralScore,
    LocationScore,
    ScaledDotScore,
    normalize_by_sum,
    softmax,
)

D_QUERY, D_KEY, D_HIDDEN, D_VALUE = 6, 4, 5, 3
LONGEST = 7


def compute_dot(one: Tensor, other: Tensor) -> Tensor:
    return sum((x * y for x, y in zip(one, other, strict=True)), torch.tensor(0.0))


def compute_score(score: AttentionScore, query: Tensor, key: Tensor, *, place: int = 0) -> Tensor:
    """Compute one score by the formula of the paper."""
    match score:
        case GeneralScore():
            matrix = score.weight.weight
            found = sum(
                (query[i] * matrix[i, j] * key[j] for i in range(D_QUERY) for j in range(D_KEY)), torch.tensor(0.0)
            )
        case AdditiveScore():
            hidden = score.query.weight @ query + score.key.weight @ key
            if score.query.bias is not None:
                hidden = hidden + score.query.bias
            found = compute_dot(score.energy.weight[0], hidden.tanh())
        case ConcatScore():
            both = torch.cat((query, key))
            found = compute_dot(
                score.energy.weight[0], torch.stack([compute_dot(w, both).tanh() for w in score.weight.weight])
            )
        case LocationScore():
            found = compute_dot(score.weight.weight[place], query)
        case ExpDotScore():
            found = torch.tensor(math.exp(compute_dot(query, key)))
        case ScaledDotScore():
            found = compute_dot(query, key) / math.sqrt(len(query))
        case _:
            found = compute_dot(query, key)
    return found


SCORES: dict[str, tuple[Callable[[], AttentionScore], int]] = {
    "dot": (DotScore, D_QUERY),
    "scaled dot": (ScaledDotScore, D_QUERY),
    "exp dot": (ExpDotScore, D_QUERY),
    "general": (lambda: GeneralScore(D_QUERY, D_KEY), D_KEY),
    "additive": (lambda: AdditiveScore(D_QUERY, D_KEY, D_HIDDEN), D_KEY),
    "additive with a bias": (lambda: AdditiveScore(D_QUERY, D_KEY, D_HIDDEN, bias=True), D_KEY),
    "concat": (lambda: ConcatScore(D_QUERY, D_KEY, D_HIDDEN), D_KEY),
    "location": (lambda: LocationScore(D_QUERY, LONGEST), D_KEY),
}
"""A builder of each score, and the width of its keys."""


@torch.no_grad()
@pytest.mark.parametrize("kind", SCORES)
def test_scores(kind: str) -> None:
    make, d_key = SCORES[kind]
    score = make()
    query, key = torch.randn(2, 3, D_QUERY), torch.randn(2, 5, d_key)
    found = score(query, score.project(key))
    assert found.shape == (2, 3, 5)
    for b in range(2):
        for i in range(3):
            for j in range(5):
                torch.testing.assert_close(found[b, i, j], compute_score(score, query[b, i], key[b, j], place=j))


def test_the_papers_additive_score_has_only_three_matrices() -> None:
    """v_a, W_a and U_a (Bahdanau et al. 2015, A.1.2)."""
    shapes = {name: tuple(each.shape) for name, each in AdditiveScore(D_QUERY, D_KEY, D_HIDDEN).named_parameters()}
    assert shapes == {
        "query.weight": (D_HIDDEN, D_QUERY),
        "key.weight": (D_HIDDEN, D_KEY),
        "energy.weight": (1, D_HIDDEN),
    }


@torch.no_grad()
@pytest.mark.parametrize("kind", SCORES)
def test_attention(kind: str) -> None:
    """c = sum_j softmax_j(score(q, k_j)) v_j over the visible keys; without visible keys it is 0."""
    make, d_key = SCORES[kind]
    score = make()
    query, key, value = torch.randn(2, 3, D_QUERY), torch.randn(2, 5, d_key), torch.randn(2, 5, D_VALUE)
    visible = torch.rand(2, 3, 5) < 0.6
    visible[0, 1] = False
    attention = Attention(score)
    found = attention(query, score.project(key), value=value, visible=visible)
    for b in range(2):
        for i in range(3):
            energies = [compute_score(score, query[b, i], key[b, j], place=j) for j in range(5)]
            weights = [math.exp(e) if sees else 0 for e, sees in zip(energies, visible[b, i], strict=True)]
            total = sum(weights) or 1
            expected = sum((w / total * v for w, v in zip(weights, value[b], strict=True)), torch.zeros(D_VALUE))
            torch.testing.assert_close(found[b, i], expected)


def test_attention_uses_the_given_normalizer_and_shows_its_weights() -> None:
    query, key, value = torch.randn(1, 2, 4), torch.randn(1, 3, 4), torch.randn(1, 3, 2)
    attention = Attention(DotScore(), lambda scores, visible: (scores > 0) * visible * 1.0)
    seen: list[Tensor] = []
    attention.probe.register_forward_hook(lambda _module, _inputs, weights: seen.append(weights))
    found = attention(query, key, value=value, visible=torch.ones(1, 2, 3, dtype=torch.bool))
    expected = (query @ key.mT > 0) * 1.0
    torch.testing.assert_close(seen[0], expected)
    torch.testing.assert_close(found, expected @ value)


def test_scaling_brings_the_variance_of_scores_to_one() -> None:
    """q . k of independent entries with variance 1 has variance d (Vaswani et al. 2017, footnote 4)."""
    for d in (4, 64, 256):
        query, key = torch.randn(8000, 1, d), torch.randn(8000, 1, d)
        assert DotScore()(query, key).var() / d == pytest.approx(1, abs=0.1)
        assert ScaledDotScore()(query, key).var() == pytest.approx(1, abs=0.1)


def test_proportional_exponentials_are_the_softmax() -> None:
    dots = torch.randn(3, 4, 6)
    visible = torch.rand(3, 4, 6) < 0.5
    torch.testing.assert_close(normalize_by_sum(dots.exp(), visible), softmax(dots, visible))


def test_proportional_weights_are_shares() -> None:
    scores = torch.tensor([[[1.0, 3.0, 4.0, 9.0]]])
    visible = torch.tensor([[[True, True, True, False]]])
    torch.testing.assert_close(normalize_by_sum(scores, visible), torch.tensor([[[0.125, 0.375, 0.5, 0.0]]]))


def test_proportional_weights_fail_for_signed_scores() -> None:
    """The lecture's normalisation of dot products: weights leave [0, 1], and are undefined if the sum is zero."""
    everything = torch.ones(1, 1, 3, dtype=torch.bool)
    signed = normalize_by_sum(torch.tensor([[[3.0, -1.0, -1.0]]]), everything)
    torch.testing.assert_close(signed, torch.tensor([[[3.0, -1.0, -1.0]]]))
    vanishing = torch.tensor([[[2.0, -1.0, -1.0]]], requires_grad=True)
    weights = normalize_by_sum(vanishing, everything)
    assert weights.tolist() == [[[0, 0, 0]]]
    weights.sum().backward()
    assert vanishing.grad is not None
    assert vanishing.grad.isfinite().all()


@pytest.mark.parametrize("choose", [softmax, normalize_by_sum])
def test_rows_without_visible_keys_are_zeros_with_finite_gradients(choose: nn.Module) -> None:
    scores = torch.rand(2, 3, 4, requires_grad=True)
    visible = torch.rand(2, 3, 4) < 0.7
    visible[0, 1], visible[1, 2] = False, False
    weights = choose(scores, visible)
    assert weights[0, 1].abs().sum() == weights[1, 2].abs().sum() == 0
    assert weights[~visible].abs().sum() == 0
    (weights * torch.randn(2, 3, 4)).sum().backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert scores.grad[~visible].abs().sum() == 0
    assert scores.grad[0, 0].abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_softmax_of_large_scores_does_not_overflow_and_ignores_hidden_keys(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    scores = torch.tensor([[[largest, 0.0, largest], [-1e4, -1e4, 1e4]]], dtype=dtype)
    visible = torch.tensor([[[False, True, False], [True, True, False]]])
    expected = torch.tensor([[[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]], dtype=dtype)
    torch.testing.assert_close(softmax(scores, visible), expected)


@pytest.mark.parametrize("choose", [softmax, normalize_by_sum])
def test_a_mask_may_be_shared_among_heads_and_rows(choose: nn.Module) -> None:
    scores, visible = torch.rand(2, 3, 4, 5), torch.rand(2, 1, 4, 5) < 0.5
    found = choose(scores, visible)
    torch.testing.assert_close(found, choose(scores, visible.expand(2, 3, 4, 5).contiguous()))
