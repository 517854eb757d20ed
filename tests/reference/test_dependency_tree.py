"""Attention over projective dependency trees, compared with the enumeration of all trees: values and gradients."""

from __future__ import annotations

import itertools
from functools import cache

import pytest
import torch
from torch import Tensor

from heedful.attention import Attention, DependencyTree, GeneralScore

Heads = tuple[int, ...]
"""The head of each slot from the second on; the first slot is the root."""


def is_projective_tree(heads: Heads) -> bool:
    """Each slot descends from the root, and a head dominates all slots between itself and its child."""
    parent = dict(enumerate(heads, start=1))

    def list_ancestors(slot: int) -> list[int]:
        """Return the slot and its ancestors, until the root or a cycle."""
        line = [slot]
        while line[-1] in parent and parent[line[-1]] not in line:
            line.append(parent[line[-1]])
        return line

    rooted = all(list_ancestors(slot)[-1] == 0 for slot in parent)
    return rooted and all(
        head in list_ancestors(between)
        for child, head in parent.items()
        for between in range(min(head, child) + 1, max(head, child))
    )


@cache
def list_trees(slots: int) -> list[Heads]:
    return [heads for heads in itertools.product(range(slots), repeat=slots - 1) if is_projective_tree(heads)]


def compute_marginals(scores: Tensor, allowed: Tensor) -> Tensor:
    """Compute p(head of row = column) of one sentence; zeros if no tree has only allowed arcs."""
    slots = len(scores)
    possible = [heads for heads in list_trees(slots) if all(allowed[c, h] for c, h in enumerate(heads, start=1))]
    if not possible:
        return torch.zeros_like(scores)
    energies = [sum((scores[c, h] for c, h in enumerate(heads, start=1)), scores.new_zeros(())) for heads in possible]
    arcs = torch.zeros(len(possible), slots, slots, dtype=scores.dtype)
    for n, heads in enumerate(possible):
        arcs[n, range(1, slots), heads] = 1
    return torch.einsum("n,nij->ij", torch.stack(energies).softmax(0), arcs)


def compute_batch_marginals(scores: Tensor, visible: Tensor) -> Tensor:
    """Compute the marginals sentence by sentence, without slots that nothing attends to."""
    found = torch.zeros(scores[..., 0, 0].numel(), *scores.shape[-2:], dtype=scores.dtype)
    for n, (score, sees) in enumerate(zip(scores.flatten(0, -3), visible.flatten(0, -3), strict=True)):
        at = sees.any(0).nonzero().squeeze(1)
        if len(at):
            pairs = (at.unsqueeze(1), at.unsqueeze(0))
            found[(torch.tensor(n), *pairs)] = compute_marginals(score[pairs], sees[pairs])
    return found.view_as(scores)


def draw_scores(*shape: int, spread: float = 2.0) -> Tensor:
    return (spread * torch.randn(*shape, dtype=torch.float64)).requires_grad_()


def assert_agree(scores: Tensor, visible: Tensor) -> Tensor:
    """Weights, and the gradient of a random sum of them."""
    found, expected = DependencyTree()(scores, visible), compute_batch_marginals(scores, visible.expand_as(scores))
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(found)
    ours, theirs = (
        torch.autograd.grad((each * weight).sum(), scores, allow_unused=True)[0] if each.requires_grad else None
        for each in (found, expected)
    )
    torch.testing.assert_close(ours, torch.zeros_like(scores) if theirs is None else theirs)
    return found


def test_the_enumeration_has_the_right_number_of_trees() -> None:
    """C(3n, n) / (2n + 1) for n words besides a root on the left."""
    assert [len(list_trees(slots)) for slots in range(1, 6)] == [1, 1, 3, 12, 55]


@pytest.mark.parametrize("slots", range(1, 6))
def test_marginals_and_gradients_equal_those_of_the_enumeration(slots: int) -> None:
    scores = draw_scores(3, slots, slots)
    found = assert_agree(scores, torch.ones(3, slots, slots, dtype=torch.bool))
    heads = torch.ones(slots, dtype=torch.float64)
    heads[0] = 0
    torch.testing.assert_close(found.sum(-1), heads.expand(3, -1))
    assert found.diagonal(0, 1, 2).abs().sum() == 0


@pytest.mark.parametrize("seed", range(4))
def test_hidden_slots_do_not_belong_to_the_sentence(seed: int) -> None:
    """Padding on the left, on the right and between tokens, in a batch of heads; also sentences of padding only."""
    torch.manual_seed(seed)
    scores = draw_scores(4, 2, 7, 7)
    real = torch.zeros(4, 1, 7, dtype=torch.bool)
    real[0, :, 3:], real[1, :, :4] = True, True
    real[2] = torch.tensor([1, 0, 1, 1, 0, 0, 1])
    scores.data[~(real.unsqueeze(-1) & real.unsqueeze(-2)).expand_as(scores)] = 80.0
    everybody_looks = real.unsqueeze(-2)  # slots of padding attend to the sentence, as `everything` allows
    found = assert_agree(scores, everybody_looks.expand(4, 1, 7, 7))
    assert found[~real.expand(4, 2, 7)].abs().sum() == 0
    assert found[3].abs().sum() == 0
    torch.testing.assert_close(found, DependencyTree()(scores, everybody_looks & real.unsqueeze(-1)))


@pytest.mark.parametrize("seed", range(6))
def test_no_tree_has_a_hidden_arc(seed: int) -> None:
    torch.manual_seed(seed)
    visible = torch.rand(30, 4, 4) < 0.6
    found = assert_agree(draw_scores(30, 4, 4), visible)
    assert found[~visible].abs().sum() == 0
    impossible = visible[..., 1:].any(1).all(1) & (found.sum((1, 2)) == 0)
    assert 0 < impossible.sum() < 30


def test_gradients_equal_finite_differences() -> None:
    visible = torch.tensor([True, True, False, True, True, True]).expand(2, 6, 6)
    assert torch.autograd.gradcheck(lambda scores: DependencyTree()(scores, visible), (draw_scores(2, 6, 6),))


def test_weights_are_the_same_without_gradients() -> None:
    scores, visible = draw_scores(3, 8, 8), torch.ones(3, 8, 8, dtype=torch.bool)
    expected = DependencyTree()(scores, visible)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            found = DependencyTree()(scores, visible)
        assert not found.requires_grad
        torch.testing.assert_close(found, expected.detach(), rtol=0, atol=0)


@pytest.mark.parametrize("size", [2.0**5, 2.0**12])
def test_equally_good_trees_share_the_probability_also_with_large_scores(size: float) -> None:
    best = size * torch.randint(-2, 3, (20, 4, 4)).double()
    visible = torch.ones(20, 4, 4, dtype=torch.bool)
    expected = compute_batch_marginals(best, visible)
    for dtype in (torch.float64, torch.float32):
        found = DependencyTree()(best.to(dtype), visible)
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=20 * size * torch.finfo(dtype).eps)


@pytest.mark.parametrize("size", [1e6, 1e30])
def test_very_large_scores_choose_the_best_tree_and_have_finite_gradients(size: float) -> None:
    best, visible = size * torch.randn(20, 5, 5, dtype=torch.float64), torch.ones(20, 5, 5, dtype=torch.bool)
    expected = compute_batch_marginals(best / size * 1e6, visible)
    for dtype in (torch.float64, torch.float32):
        scores = best.to(dtype, copy=True).requires_grad_()
        found = DependencyTree()(scores, visible)
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)
        found.square().sum().backward()
        assert scores.grad is not None
        assert scores.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_largest_and_smallest_numbers_of_a_type_give_finite_results(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    scores = (largest * torch.randint(-1, 2, (5, 12, 12)).to(dtype)).requires_grad_()
    weights = DependencyTree()(scores, torch.ones(5, 12, 12, dtype=torch.bool))
    assert weights.dtype == dtype
    torch.testing.assert_close(
        weights.float().sum((1, 2)), torch.full((5,), 11.0, dtype=torch.float32), rtol=0.02, atol=0
    )
    weights.square().sum().backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


def test_long_sentences_are_exact_in_single_precision() -> None:
    scores, visible = draw_scores(2, 70, 70).detach(), torch.ones(2, 70, 70, dtype=torch.bool)
    exact, single = DependencyTree()(scores, visible), DependencyTree()(scores.float(), visible)
    torch.testing.assert_close(single.double(), exact, rtol=0, atol=1e-4)
    torch.testing.assert_close(exact[:, 1:].sum(-1), torch.ones(2, 69, dtype=torch.float64))


def test_a_score_learns_through_trees() -> None:
    """A sentence in which each word depends on the word before it, and whose arcs cannot cross."""
    attention = Attention(GeneralScore(6, 6), DependencyTree())
    assert [name for name, _ in attention.named_parameters()] == ["score.weight.weight"]
    words = torch.randn(1, 5, 6)
    visible = torch.ones(1, 5, 5, dtype=torch.bool)
    wanted = torch.cat((torch.zeros_like(words[:, :1]), words[:, :-1]), 1)
    optimizer = torch.optim.Adam(attention.parameters(), lr=0.1)
    for _ in range(60):
        context = attention(words, attention.score.project(words), value=words, visible=visible)
        loss = (context - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-3


def test_a_sentence_without_slots_has_no_weights() -> None:
    assert DependencyTree()(torch.zeros(2, 0, 0), torch.zeros(2, 0, 0, dtype=torch.bool)).shape == (2, 0, 0)
    assert DependencyTree()(torch.zeros(0, 3, 3), torch.zeros(0, 3, 3, dtype=torch.bool)).shape == (0, 3, 3)
