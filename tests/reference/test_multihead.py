"""Multi-head attention in loops: one query, one head, one key at a time."""

from __future__ import annotations

import cmath
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedful.attention import (
    AttentionMask,
    ConcatAggregation,
    MeanAggregation,
    MultiHeadAttention,
    NoPosition,
    ProjectionAggregation,
    QuadraticPosition,
    RelativePosition,
    RotaryPosition,
    ShawPosition,
)

D_MODEL, HEADS, QUERIES, KEYS = 12, 3, 4, 5
D_K = D_MODEL // HEADS

AGGREGATIONS = {"mean": MeanAggregation, "concat": ConcatAggregation, "project": lambda: ProjectionAggregation(D_MODEL)}
COLUMNS = 3
RELATIVES = ("unaware", "rotary", "shaw", "shaw-keys", "quadratic")


def build_relative_position(kind: str, d_v: int = D_K, d_k: int = D_K) -> RelativePosition:
    match kind:
        case "rotary":
            return RotaryPosition(d_k)
        case "shaw":
            return ShawPosition(d_k, d_v, clip=2)
        case "shaw-keys":
            return ShawPosition(d_k, None, clip=1)
        case "quadratic":
            return QuadraticPosition(HEADS, COLUMNS)
    return NoPosition()


def clip_distance(distance: int, limit: int) -> int:
    """Clip a distance, key minus query, as above equation 5 of Shaw et al. 2018."""
    return max(-limit, min(limit, distance))


def rotate_vector(vector: Tensor, position: int) -> Tensor:
    """Rotate a vector by Su et al. 2021, eq. 13, with complex numbers: pair i is rotated by t / 10000^(2i/d)."""
    result = []
    for i in range(0, len(vector), 2):
        pair = complex(vector[i], vector[i + 1]) * cmath.exp(1j * position / 10000 ** (i / len(vector)))
        result += [pair.real, pair.imag]
    return torch.tensor(result)


class ReferenceAttention:
    """The equations in loops, with the weights of one of heedful's attentions."""

    def __init__(self, attention: MultiHeadAttention) -> None:
        self.relative: RelativePosition = attention.relative
        self.aggregation = attention.aggregation
        shared = attention.shared_key_value
        self.d_k = D_MODEL if shared and isinstance(attention.aggregation, MeanAggregation) else D_K
        cut = HEADS * self.d_k
        self.W_q, self.b_q = attention.query.weight, attention.query.bias
        self.W_k, self.b_k = attention.key_value.weight[:cut], attention.key_value.bias[:cut]
        self.W_v = self.W_k if shared else attention.key_value.weight[cut:]
        self.b_v = self.b_k if shared else attention.key_value.bias[cut:]
        self.d_v = len(self.W_v) // HEADS

    def head(
        self, number: int, x: Tensor, *, keys: Tensor, values: Tensor, at: list[int], t: int, sees: Tensor
    ) -> Tensor:
        part = slice(number * self.d_k, (number + 1) * self.d_k)
        wide = slice(number * self.d_v, (number + 1) * self.d_v)
        query = self.W_q[part] @ x + self.b_q[part]
        exponents, contents = [], []
        for j in range(len(keys)):
            key = self.W_k[part] @ keys[j] + self.b_k[part]
            value = self.W_v[wide] @ values[j] + self.b_v[wide]
            score = self.score(query, key, t=t, s=at[j]) + self.nearness(number, t=t, s=at[j])
            exponents.append(torch.exp(score) if sees[j] else torch.tensor(0.0))
            contents.append(value + self.shift(t=t, s=at[j]))
        total = sum(exponents)
        context = torch.zeros(self.d_v)
        for exponent, content in zip(exponents, contents, strict=True):
            context = context + (exponent / total if total > 0 else 0.0) * content
        return context

    def score(self, query: Tensor, key: Tensor, *, t: int, s: int) -> Tensor:
        if isinstance(self.relative, RotaryPosition):
            return rotate_vector(query, t) @ rotate_vector(key, s) / math.sqrt(self.d_k)
        if isinstance(self.relative, ShawPosition):  # eq. 4
            limit = self.relative.clip
            return query @ (key + self.relative.key[clip_distance(s - t, limit) + limit]) / math.sqrt(self.d_k)
        return query @ key / math.sqrt(self.d_k)

    def nearness(self, head: int, *, t: int, s: int) -> Tensor:
        """Compute Cordonnier et al. 2020, eq. 9: -alpha (|delta|^2 - 2 <delta, centre>), delta from query to key."""
        if not isinstance(self.relative, QuadraticPosition):
            return torch.tensor(0.0)
        down, right = s // COLUMNS - t // COLUMNS, s % COLUMNS - t % COLUMNS
        centre, alpha = self.relative.centre[head], self.relative.alpha[head]
        return -alpha * (down**2 + right**2 - 2 * (down * centre[0] + right * centre[1]))

    def shift(self, *, t: int, s: int) -> Tensor:
        if isinstance(self.relative, ShawPosition) and self.relative.value is not None:  # eq. 3
            limit = self.relative.clip
            return self.relative.value[clip_distance(s - t, limit) + limit]
        return torch.zeros(self.d_v)

    def concat(self, contexts: list[Tensor]) -> Tensor:
        if isinstance(self.aggregation, MeanAggregation):
            return sum(contexts, torch.zeros(self.d_v)) / HEADS
        together = torch.tensor([float(number) for context in contexts for number in context])
        if isinstance(self.aggregation, ProjectionAggregation):
            return self.aggregation.output.weight @ together + self.aggregation.output.bias
        return together


@torch.no_grad()
@pytest.mark.parametrize("relative", RELATIVES)
@pytest.mark.parametrize(
    ("aggregation", "shared"),
    [(name, shared) for name in AGGREGATIONS for shared in (False, True)],
)
def test_equals_the_loops(aggregation: str, shared: bool, relative: str) -> None:
    d_v = D_MODEL if aggregation == "mean" else D_K
    position = build_relative_position(relative, d_v, d_v if shared else D_K)
    made: dict[str, Any] = {"aggregation": AGGREGATIONS[aggregation](), "relative": position}
    attention = MultiHeadAttention(D_MODEL, HEADS, d_memory=7, shared_key_value=shared, **made)
    for parameter in attention.parameters():
        nn.init.normal_(parameter, std=0.5)
    x, keys = torch.randn(2, QUERIES, D_MODEL), torch.randn(2, KEYS, 7)
    positions = torch.tensor([[0, 1, 2, 3], [6, 2, 9, 0]])
    at = torch.tensor([[0, 1, 2, 3, 4], [3, 7, 1, 0, 2]])
    visible = torch.rand(2, QUERIES, KEYS) < 0.6
    visible[1, 2] = False
    sight = AttentionMask.from_visible(positions, key_positions=at, visible=visible)
    longhand = ReferenceAttention(attention)
    for values in (keys, torch.randn(2, KEYS, 7)):
        found = attention(x, attention.project_memory(keys, values, at), mask=sight)
        for b in range(2):
            for i in range(QUERIES):
                seen = {"at": at[b].tolist(), "t": int(positions[b, i]), "sees": visible[b, i]}
                contexts = [longhand.head(j, x[b, i], keys=keys[b], values=values[b], **seen) for j in range(HEADS)]
                torch.testing.assert_close(found[b, i], longhand.concat(contexts))


def test_positions_matter_only_to_attention_that_uses_them() -> None:
    """Attention without positions treats its keys as a set; relative positions do not."""
    order = torch.tensor([3, 0, 4, 1, 2])
    x, keys = torch.randn(1, 2, D_MODEL), torch.randn(1, KEYS, D_MODEL)
    positions, at = torch.tensor([[1, 4]]), torch.arange(KEYS)[None]
    everybody = torch.ones(1, 2, KEYS, dtype=torch.bool)
    for name in RELATIVES:
        attention = MultiHeadAttention(D_MODEL, HEADS, relative=build_relative_position(name))
        sight = AttentionMask.from_visible(positions, key_positions=at, visible=everybody)
        plain = attention(x, attention.project_memory(keys, keys, at), mask=sight)
        moved = keys[:, order]
        differs = (attention(x, attention.project_memory(moved, moved, at), mask=sight) - plain).abs().max() > 1e-6
        assert differs == (name != "unaware"), name


@pytest.mark.parametrize("relative", ["rotary", "shaw", "shaw-keys"])
def test_only_differences_of_positions_matter(relative: str) -> None:
    attention = MultiHeadAttention(D_MODEL, HEADS, relative=build_relative_position(relative))
    x = torch.randn(1, KEYS, D_MODEL)
    everybody = torch.ones(1, KEYS, KEYS, dtype=torch.bool)
    results = []
    for first in (0, 1, 1000):
        at = torch.arange(first, first + KEYS)[None]
        sight = AttentionMask.from_visible(at, key_positions=at, visible=everybody)
        results.append(attention(x, attention.project_memory(x, x, at), mask=sight))
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(results[2], results[0])


@torch.no_grad()
def test_distances_beyond_the_clip_are_equal() -> None:
    shaw = ShawPosition(D_K, D_K, clip=2)
    query, weights = torch.randn(1, HEADS, 1, D_K), torch.rand(1, HEADS, 1, 7)
    t = torch.tensor([[10]])
    near, far = torch.tensor([[8, 9, 10, 11, 12, 8, 12]]), torch.tensor([[0, 9, 10, 11, 99, 3, 13]])
    torch.testing.assert_close(shaw.compute_score_bias(query, t, far), shaw.compute_score_bias(query, t, near))
    torch.testing.assert_close(shaw.compute_value_bias(weights, t, far), shaw.compute_value_bias(weights, t, near))
    assert len(shaw.compute_score_bias(query, t, near)[0, 0, 0].unique()) == 5, "positions before and after differ"


def test_rotations_keep_norms_and_do_not_change_position_0() -> None:
    rotary, x = RotaryPosition(10), torch.randn(2, HEADS, 6, 10)
    at = torch.tensor([[0, 1, 2, 3, 500, 100000], [0, 5, 1, 0, 2, 9]])
    found = rotary.rotate(x, at)
    for start in range(0, 10, 2):  # pair by pair
        torch.testing.assert_close(found[..., start : start + 2].norm(dim=-1), x[..., start : start + 2].norm(dim=-1))
    torch.testing.assert_close(found[:, :, 0], x[:, :, 0], rtol=0, atol=0)
    for b in range(2):
        for i in range(6):
            torch.testing.assert_close(found[b, 1, i], rotate_vector(x[b, 1, i], int(at[b, i])))


def test_rotations_add_up() -> None:
    rotary, x = RotaryPosition(8), torch.randn(1, 2, 4, 8)
    a, b = torch.tensor([[0, 3, 7, 20]]), torch.tensor([[5, 1, 9, 11]])
    torch.testing.assert_close(rotary.rotate(rotary.rotate(x, a), b), rotary.rotate(x, a + b))


def test_equal_images_share_their_positions() -> None:
    """Rows of positions that share memory give the same as copies; the heads attend to their centres."""
    quadratic = QuadraticPosition(2, 4, alpha=9.0)
    with torch.no_grad():
        quadratic.centre.copy_(torch.tensor([[1.0, 0.0], [-1.0, 2.0]]))
    query, at = torch.randn(3, 2, 12, 4), torch.arange(12).expand(3, -1)
    once, each = (quadratic.compute_score_bias(query, here, there) for here, there in ((at, at), (at.clone(), at)))
    assert (len(once), len(each)) == (1, 3)
    torch.testing.assert_close(once.expand(3, -1, -1, -1), each)
    middle, start = 5, 9
    assert once[0, 0, middle].softmax(-1).argmax() == middle + 4, "a row below"
    assert once[0, 1, start].softmax(-1).argmax() == start - 4 + 2, "a row above, two to the right"
    assert once[0, 0, middle].softmax(-1).max() > 0.99
    assert once[0, 1, start].softmax(-1).max() > 0.99
