"""Lin et al. 2017 in plain loops: the matrix of a sentence, and the penalty on hops with the same attention."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from heedful.attention import MultiHopAttention
from heedful.inspection.capture import watch_attention
from heedful.models.transformer import SelfAttentivePooler
from heedful.tasks.generation_objective import decorrelation_penalty

POSITIONS = torch.tensor([[0, 1, 2, 3, 4], [0, 1, 2, -1, -1], [-1, -1, 0, 1, 2], [0, -1, -1, -1, -1]])
D_MODEL, HOPS, D_ALIGNMENT = 6, 4, 5


def build_pooler() -> tuple[SelfAttentivePooler, Tensor]:
    return SelfAttentivePooler(D_MODEL, hops=HOPS, d_alignment=D_ALIGNMENT), torch.randn(4, 5, D_MODEL)


def compute_annotation(summary: SelfAttentivePooler, hidden: Tensor, positions: Tensor) -> Tensor:
    """Compute A of one sentence, [hops, T], number by number (eq. 6)."""
    first, second, hidden = summary.keys.weight.detach(), summary.queries.weight.detach(), hidden.detach()
    rows = []
    for hop in range(HOPS):
        scores = []
        for vector in hidden:
            inner = [math.tanh(sum(float(w * x) for w, x in zip(row, vector, strict=True))) for row in first]
            scores.append(sum(float(w) * u for w, u in zip(second[hop], inner, strict=True)))
        shares = [math.exp(s) if place >= 0 else 0.0 for s, place in zip(scores, positions.tolist(), strict=True)]
        rows.append([share / sum(shares) for share in shares])
    return torch.tensor(rows)


def test_the_matrix_equals_that_of_the_paper() -> None:
    summary, hidden = build_pooler()
    with watch_attention(summary) as weights:
        found = summary(hidden, POSITIONS)
    ((attention,),) = weights.values()
    assert attention.shape == (4, HOPS, 1, 5)
    for row in range(4):
        expected = compute_annotation(summary, hidden[row], POSITIONS[row])
        torch.testing.assert_close(attention[row].squeeze(1), expected)
        torch.testing.assert_close(found[row].view(HOPS, D_MODEL), expected @ hidden[row])


def test_the_weights_of_each_hop_sum_to_one_and_padding_has_none() -> None:
    summary, hidden = build_pooler()
    with watch_attention(summary) as weights:
        summary(hidden, POSITIONS)
    ((attention,),) = weights.values()
    torch.testing.assert_close(attention.sum(-1), torch.ones(4, HOPS, 1))
    assert (attention[(POSITIONS < 0)[:, None, None].expand_as(attention)] == 0).all()


def test_other_sentences_and_padding_do_not_matter() -> None:
    summary, hidden = build_pooler()
    together = summary(hidden, POSITIONS)
    other = torch.where((POSITIONS >= 0).unsqueeze(-1), hidden, torch.randn_like(hidden))
    torch.testing.assert_close(summary(other, POSITIONS), together)
    for row, places in enumerate(POSITIONS):
        there = places >= 0
        alone = summary(hidden[row, there].unsqueeze(0), places[there].unsqueeze(0))
        torch.testing.assert_close(alone[0], together[row])


def test_permuting_hops_permutes_rows() -> None:
    summary, hidden = build_pooler()
    before = summary(hidden, POSITIONS).view(4, HOPS, D_MODEL)
    order = [2, 0, 3, 1]
    with torch.no_grad():
        summary.queries.weight.copy_(summary.queries.weight[order].clone())
    torch.testing.assert_close(summary(hidden, POSITIONS).view(4, HOPS, D_MODEL), before[:, order])


def test_captured_weights_are_those_of_the_computation() -> None:
    hops = MultiHopAttention(3)
    query, key, value = torch.randn(2, 2, 12), torch.randn(2, 5, 4), torch.randn(2, 5, 7)
    visible = torch.rand(2, 2, 5) < 0.7
    with watch_attention(hops) as weights:
        found = hops(query, key, value=value, visible=visible)
    told = hops.compute_trace(query, key, value=value, visible=visible)
    torch.testing.assert_close(told.weights, weights[""][0])
    torch.testing.assert_close(told.context.transpose(1, 2).flatten(2), found)
    torch.testing.assert_close(told.scores, torch.einsum("bhqd,bhkd->bhqk", told.query, told.key))


def test_the_penalty_equals_that_of_the_paper() -> None:
    """Sum over sentences of the squared entries of A A^T - I (eq. 8)."""
    summary, hidden = build_pooler()
    with watch_attention(summary) as weights:
        summary(hidden, POSITIONS)
    ((attention,),) = weights.values()
    expected = 0.0
    for row in range(4):
        matrix = compute_annotation(summary, hidden[row], POSITIONS[row])
        for i, j in itertools.product(range(HOPS), repeat=2):
            expected += (float(matrix[i] @ matrix[j]) - (i == j)) ** 2
    assert float(decorrelation_penalty([attention])) == pytest.approx(expected)


def test_the_penalty_is_zero_if_each_hop_attends_to_its_own_token() -> None:
    summary = SelfAttentivePooler(5, hops=3, d_alignment=5)
    with torch.no_grad():
        summary.keys.weight.copy_(20 * torch.eye(5))
        summary.queries.weight.copy_(1000 * torch.eye(5)[[4, 0, 2]])
    with watch_attention(summary) as weights:
        found = summary(torch.eye(5).unsqueeze(0), torch.arange(5).unsqueeze(0))
    ((attention,),) = weights.values()
    assert float(decorrelation_penalty([attention])) == 0
    assert torch.equal(found.view(3, 5), torch.eye(5)[[4, 0, 2]])


def test_gradients_of_matrix_and_penalty_reach_everything() -> None:
    summary, hidden = build_pooler()
    hidden.requires_grad_()
    with watch_attention(summary, detach=False) as weights:
        found = summary(hidden, POSITIONS)
    ((attention,),) = weights.values()
    for value in (found.square().sum(), decorrelation_penalty([attention])):
        for parameter in (*summary.parameters(), hidden):
            parameter.grad = None
        value.backward(retain_graph=True)  # type: ignore[no-untyped-call]  # torch has no annotation here
        for parameter in summary.parameters():
            assert parameter.grad is not None
            assert parameter.grad.abs().sum(1).gt(0).all()
        assert hidden.grad is not None
        several = (POSITIONS >= 0) & ((POSITIONS >= 0).sum(1, keepdim=True) > 1)
        assert hidden.grad[several].abs().sum(1).gt(0).all()
        assert not hidden.grad[POSITIONS < 0].any()
