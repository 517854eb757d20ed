"""Linear-chain attention against the enumeration of all selections, values and gradients."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from heedful.attention import Attention, DotScore, LinearChain


def chain(*, total: float | None = None, spread: float = 1.0) -> LinearChain:
    module = LinearChain(total=total).double()
    torch.nn.init.normal_(module.transition, std=spread)
    return module


def enumerated(scores: Tensor, transition: Tensor) -> Tensor:
    """p(z_i = 1) of one chain, from every one of its 2^n selections."""
    n = len(scores)
    selections = list(itertools.product((0, 1), repeat=n))
    energies = []
    for z in selections:
        energy = scores.new_zeros(())
        for i in range(n):
            energy = energy + z[i] * scores[i]
        for i in range(n - 1):
            energy = energy + transition[z[i], z[i + 1]]
        energies.append(energy)
    probabilities = torch.stack(energies).softmax(0)
    selected = torch.tensor(selections, dtype=scores.dtype).view(len(selections), n)
    return probabilities @ selected


def by_enumeration(scores: Tensor, visible: Tensor, transition: Tensor) -> Tensor:
    """Chain by chain, of the visible slots alone."""
    rows = []
    for row, sees in zip(scores.flatten(0, -2), visible.flatten(0, -2), strict=True):
        at = sees.nonzero().squeeze(1)
        weights = torch.zeros_like(row)
        rows.append(weights.scatter(0, at, enumerated(row[at], transition)) if len(at) else weights)
    return torch.stack(rows).view_as(scores)


@pytest.mark.parametrize("slots", range(1, 9))
def test_marginals_and_gradients_are_those_of_the_enumeration(slots: int) -> None:
    module = chain()
    scores = (2 * torch.randn(3, slots, dtype=torch.float64)).view(1, 3, slots).requires_grad_()
    visible = torch.ones(1, 3, slots, dtype=torch.bool)
    leaves, weight = (scores, module.transition), torch.randn_like(scores)
    found, expected = module(scores, visible), by_enumeration(scores, visible, module.transition)
    torch.testing.assert_close(found, expected)
    ours, theirs = (torch.autograd.grad((each * weight).sum(), leaves, allow_unused=True) for each in (found, expected))
    torch.testing.assert_close(ours[0], theirs[0])
    if slots > 1:
        assert theirs[1].abs().min() > 1e-6
        torch.testing.assert_close(ours[1], theirs[1])


@pytest.mark.parametrize("seed", range(4))
def test_hidden_slots_anywhere_are_no_part_of_the_chain(seed: int) -> None:
    """Also in a batch of heads whose queries see different things, some of them nothing."""
    torch.manual_seed(seed)
    module = chain()
    scores = torch.randn(2, 2, 3, 7, dtype=torch.float64, requires_grad=True)
    visible = torch.rand(2, 1, 3, 7) < 0.6
    visible[0, 0, 1] = False
    everywhere = visible.expand(2, 2, 3, 7)
    found, expected = module(scores, visible), by_enumeration(scores, everywhere, module.transition)
    torch.testing.assert_close(found, expected)
    assert found[~everywhere].abs().sum() == 0
    weight = torch.randn_like(scores)
    for mine, other in zip(
        torch.autograd.grad((found * weight).sum(), (scores, module.transition)),
        torch.autograd.grad((expected * weight).sum(), (scores, module.transition)),
        strict=True,
    ):
        torch.testing.assert_close(mine, other)


def test_gradients_by_differences() -> None:
    module = chain(total=2.0)
    visible = torch.tensor([[[True, True, False, True, True]]])

    def weights(scores: Tensor, transition: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(module, {"transition": transition}, (scores, visible))
        return found

    scores = torch.randn(1, 1, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(weights, (scores, module.transition))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [30.0, 1e4, 1e30])
def test_extreme_potentials_are_exact_and_have_finite_gradients(size: float, dtype: torch.dtype) -> None:
    """A slot that is as good as decided must still tell its neighbours which way, to the last digit."""
    module = chain()
    signs = torch.tensor(list(itertools.product((-size, 0.5, size), repeat=4)), dtype=torch.float64).unsqueeze(0)
    visible = torch.ones_like(signs, dtype=torch.bool)
    with torch.no_grad():
        expected = by_enumeration(signs.clamp(-1e4, 1e4), visible, module.transition.double())
    scores = signs.to(dtype).requires_grad_()
    found = module.to(dtype)(scores, visible)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-12)
    (found * torch.randn_like(found)).sum().backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert module.transition.grad is not None
    assert module.transition.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("total", [None, 2.0])
def test_the_largest_and_smallest_numbers_of_a_type_give_numbers(dtype: torch.dtype, total: float | None) -> None:
    module = LinearChain(total=total).to(dtype)
    torch.nn.init.normal_(module.transition, std=30)
    largest = torch.finfo(dtype).max
    scores = torch.tensor([[[largest, -largest, 0.0, largest, -largest], [-largest] * 5]], dtype=dtype).requires_grad_()
    visible = torch.tensor([[[True, True, True, False, True], [True] * 5]])
    weights = module(scores, visible)
    assert weights.dtype == dtype
    weights.square().sum().backward()
    for numbers in (weights, scores.grad, module.transition.grad):
        assert numbers is not None
        assert numbers.isfinite().all()


def test_half_precision_loses_nothing_along_the_chain() -> None:
    """Only the weights themselves are rounded, to the 8 bits that they have."""
    module = chain(spread=2.0).bfloat16()
    scores, visible = (8 * torch.randn(1, 20, 30)).bfloat16(), torch.ones(1, 20, 30, dtype=torch.bool)
    found = module(scores, visible)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), module.double()(scores.double(), visible), rtol=2**-8, atol=1e-6)


def test_long_chains_agree_with_products_of_transfer_matrices() -> None:
    module, n = chain(spread=2.0), 400
    scores = 2 * torch.randn(1, 1, n, dtype=torch.float64)
    step, unary = module.transition.detach().exp(), torch.stack((torch.zeros(n), scores[0, 0]), 1).exp()
    before, after = [unary[0]], [torch.ones(2, dtype=torch.float64)]
    for i in range(1, n):
        both = (before[-1] @ step) * unary[i]
        before.append(both / both.sum())
        both = step @ (unary[n - i] * after[-1])
        after.append(both / both.sum())
    joint = torch.stack(before) * torch.stack(after[::-1])
    found = module(scores, torch.ones(1, 1, n, dtype=torch.bool))
    torch.testing.assert_close(found[0, 0], joint[:, 1] / joint.sum(1))


def test_without_transitions_keys_are_independent() -> None:
    """Kim et al.'s sigmoid attention; a transition that rewards agreement then draws neighbours along."""
    module = LinearChain()
    scores, visible = torch.randn(2, 3, 6), torch.ones(2, 3, 6, dtype=torch.bool)
    torch.testing.assert_close(module(scores, visible), scores.sigmoid())
    alone = torch.tensor([[[0.0, 0.0, 5.0, 0.0, 0.0]]])
    with torch.no_grad():
        module.transition.copy_(2 * torch.eye(2))
        left, near, middle, right, far = module(alone, torch.ones(1, 1, 5, dtype=torch.bool))[0, 0].tolist()
    assert middle > near > left > 0.5
    assert (near, left) == pytest.approx((right, far))


def test_a_total_scales_the_marginals_and_nothing_else() -> None:
    plain, scaled = chain(), chain(total=2.0)
    scaled.load_state_dict(plain.state_dict())
    scores, visible = torch.randn(2, 3, 6, dtype=torch.float64), torch.rand(2, 3, 6) < 0.7
    visible[1, 1] = False
    weights = plain(scores, visible)
    sums = weights.sum(-1, keepdim=True)
    expected = torch.where(sums > 0, 2 * weights / torch.where(sums > 0, sums, 1.0), 0.0)
    torch.testing.assert_close(scaled(scores, visible), expected)


def test_an_attention_learns_its_transitions() -> None:
    attention = Attention(DotScore(), LinearChain())
    assert [name for name, _ in attention.named_parameters()] == ["choose.transition"]
    query, memory = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    visible = torch.ones(2, 3, 5, dtype=torch.bool)
    attention(query, memory, value=memory, visible=visible).square().sum().backward()
    gradient = attention.choose.transition.grad
    assert gradient.abs().min() > 0
    assert float(gradient.sum()) == pytest.approx(0, abs=1e-4), "a number added to all transitions changes nothing"


def test_a_memory_without_slots_gives_no_weights() -> None:
    assert LinearChain()(torch.zeros(2, 3, 0), torch.zeros(2, 3, 0, dtype=torch.bool)).shape == (2, 3, 0)
