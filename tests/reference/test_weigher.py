"""Heads with any score and normalizer, compared with one attention for each head."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from heedful.attention import (
    AdditiveScore,
    Attention,
    AttentionMask,
    AttentionScore,
    ConcatAggregation,
    ConcatScore,
    DotScore,
    ExpDotScore,
    GeneralScore,
    LinearChain,
    LocationScore,
    MultiHeadAttention,
    Normalizer,
    RotaryPosition,
    ScaledDotScore,
    ScoredWeights,
    ShawPosition,
    StraightThrough,
    normalize_by_sum,
    softmax,
)

D_MODEL, HEADS, ROWS, QUERIES, KEYS = 12, 3, 2, 4, 6
D_K = D_MODEL // HEADS
SCORES: dict[str, Callable[[], AttentionScore]] = {
    "dot": DotScore,
    "scaled_dot": ScaledDotScore,
    "exp_dot": ExpDotScore,
    "general": lambda: GeneralScore(D_K, D_K),
    "additive": lambda: AdditiveScore(D_K, D_K, 5),
    "concat": lambda: ConcatScore(D_K, D_K, 7),
    "location": lambda: LocationScore(D_K, 9),
}
CHOICES: dict[str, Callable[[], Normalizer]] = {
    "softmax": lambda: softmax,
    "proportional": lambda: normalize_by_sum,
    "straight_through": StraightThrough,
    "linear_chain": LinearChain,
}


def build_mask(visible: Tensor) -> AttentionMask:
    positions = torch.arange(QUERIES).expand(ROWS, -1) + 2
    key_positions = torch.tensor([[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, -1, -1]])
    return AttentionMask.from_visible(
        positions, key_positions=key_positions, visible=visible & (key_positions >= 0).unsqueeze(1)
    )


def build_attention(score: AttentionScore, choice: Normalizer, **more: object) -> MultiHeadAttention:
    made = MultiHeadAttention(
        D_MODEL, HEADS, weigher=ScoredWeights(score, choice), aggregation=ConcatAggregation(), **more
    )  # type: ignore[arg-type]
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made.double().eval()


@pytest.mark.parametrize(("score", "choice"), list(itertools.product(SCORES, CHOICES)))
def test_each_head_equals_a_single_attention(score: str, choice: str) -> None:
    made = build_attention(SCORES[score](), CHOICES[choice]())
    weigher = made.weigher
    assert isinstance(weigher, ScoredWeights)
    alone = Attention(weigher.measure, weigher.choice)
    x, memory = torch.randn(ROWS, QUERIES, D_MODEL).double(), torch.randn(ROWS, KEYS, D_MODEL).double()
    seen = build_mask(torch.rand(ROWS, QUERIES, KEYS) < 0.7)
    visible = torch.zeros(ROWS, QUERIES, KEYS, dtype=torch.bool) if seen.visible is None else seen.visible.squeeze(1)
    found = made(x, made.project_memory(memory, memory, seen.key_positions), mask=seen)
    keys, values = made.key_value(memory).chunk(2, -1)
    for head, (query, key, value) in enumerate(
        zip(made.query(x).split(D_K, -1), keys.split(D_K, -1), values.split(D_K, -1), strict=True)
    ):
        projected = alone.score.project(key, seen.key_positions)
        expected = alone(query, projected, value=value, visible=visible)
        torch.testing.assert_close(found[..., head * D_K : (head + 1) * D_K], expected)


@pytest.mark.parametrize("relative", [RotaryPosition(D_K), ShawPosition(D_K, D_K, clip=2)], ids=["rotary", "shaw"])
def test_composed_dot_product_attention_equals_the_usual_one(relative: nn.Module) -> None:
    composed = build_attention(ScaledDotScore(), softmax, relative=relative)
    usual = MultiHeadAttention(D_MODEL, HEADS, aggregation=ConcatAggregation(), relative=relative).double().eval()  # type: ignore[arg-type]
    usual.load_state_dict(composed.state_dict())
    x, memory = torch.randn(ROWS, QUERIES, D_MODEL).double(), torch.randn(ROWS, KEYS, D_MODEL).double()
    for visible in (torch.ones(ROWS, QUERIES, KEYS, dtype=torch.bool), torch.rand(ROWS, QUERIES, KEYS) < 0.5):
        seen = build_mask(visible)
        results = [
            made(x, made.project_memory(memory, memory, seen.key_positions), mask=seen) for made in (composed, usual)
        ]
        torch.testing.assert_close(*results)


def test_proportional_exponentials_of_dots_are_the_softmax() -> None:
    one, other = build_attention(ExpDotScore(), normalize_by_sum), build_attention(DotScore(), softmax)
    other.load_state_dict(one.state_dict())
    x = torch.randn(ROWS, KEYS, D_MODEL).double()
    positions = torch.arange(KEYS).expand(ROWS, -1)
    everything = torch.ones(ROWS, KEYS, KEYS, dtype=torch.bool).tril()
    seen = AttentionMask.from_visible(positions, key_positions=positions, visible=everything)
    results = [made(x, made.project_memory(x, x, positions), mask=seen) for made in (one, other)]
    torch.testing.assert_close(*results)
