"""Dropout by its statistics, and by the seed that decides it."""

from __future__ import annotations

import math

import pytest
import torch

from heedful.attention import Dropout

MANY = 400_000
PROBABILITIES = (0.004, 0.1, 0.3, 0.5, 0.9, 0.999)


def rounded(p: float) -> float:
    """What p becomes where eight masks are cut from one 64-bit word."""
    return min(round(p * 256), 255) / 256


@pytest.mark.parametrize("p", PROBABILITIES)
def test_a_share_of_p_goes_and_the_rest_grows_so_that_the_mean_stays(p: float) -> None:
    q = rounded(p)
    assert abs(q - p) <= 1 / 256
    found = Dropout(p).train()(torch.ones(MANY))
    kept = found != 0
    torch.testing.assert_close(found[kept], torch.full_like(found[kept], 1 / (1 - q)))
    deviation = math.sqrt(q * (1 - q) / MANY)
    assert abs(float(kept.double().mean()) - (1 - q)) < 5 * deviation
    assert abs(float(found.double().mean()) - 1) < 5 * deviation / (1 - q)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_places_are_independent(p: float) -> None:
    """Also the eight that share a word, neighbours in a row, and a row and the next."""
    words = 60_000
    kept = (Dropout(p).train()(torch.ones(words, 8)) != 0).double()
    assert float((kept.mean(0) - (1 - rounded(p))).abs().max()) < 5 * math.sqrt(p * (1 - p) / words)
    both = torch.cat((kept[:-1], kept[1:]), 1).T
    apart = torch.corrcoef(both).fill_diagonal_(0)
    assert float(apart.abs().max()) < 5.5 / math.sqrt(words)


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5, 1), (2, 8, 4), (0, 3)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_generators_state_decides_whatever_the_shape(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    dropout, x = Dropout(0.5).train(), torch.randn(shape, dtype=dtype)
    torch.manual_seed(11)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(11)
    assert torch.equal(dropout(x), first)
    assert torch.equal(dropout(x), second)
    assert first.dtype == dtype
    assert first.shape == x.shape


def test_calls_and_seeds_give_masks_of_their_own() -> None:
    dropout, x = Dropout(0.5).train(), torch.ones(MANY)
    torch.manual_seed(3)
    masks = [dropout(x) != 0, dropout(x) != 0]
    for seed in (4, 5, 2**62):
        torch.manual_seed(seed)
        masks.append(dropout(x) != 0)
    apart = torch.corrcoef(torch.stack(masks).double()).fill_diagonal_(0)
    assert float(apart.abs().max()) < 5 / math.sqrt(MANY)


def test_nothing_is_dropped_outside_training_or_with_probability_0() -> None:
    x, branch = torch.randn(4, 5), torch.randn(4, 5)
    for dropout in (Dropout(0.9).eval(), Dropout(0.0).train()):
        assert torch.equal(dropout(x), x)
        assert torch.equal(dropout.add_dropped(x, branch), x + branch)
    state = torch.get_rng_state()
    Dropout(0.9).eval().add_dropped(x, x)
    assert torch.equal(torch.get_rng_state(), state), "an evaluation may not change what training draws"


@pytest.mark.parametrize("p", [0.1, 0.7])
def test_the_fused_residual_is_the_sum_of_its_parts(p: float) -> None:
    """x + dropout(branch), with the same draw and the same gradients."""
    dropout = Dropout(p).train()
    x, branch, weight = (torch.randn(3, 5, 7, dtype=torch.float64, requires_grad=True) for _ in range(3))
    torch.manual_seed(8)
    fused = dropout.add_dropped(x, branch)
    torch.manual_seed(8)
    longhand = x + dropout(branch)
    torch.testing.assert_close(fused, longhand)
    found = torch.autograd.grad((fused * weight).sum(), [x, branch])
    expected = torch.autograd.grad((longhand * weight).sum(), [x, branch])
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other)
    assert torch.equal(found[0], weight), "the shortcut passes its gradient on as it is"
    assert torch.equal(found[1] != 0, fused != x)


def test_a_dropout_of_everything_is_refused() -> None:
    for p in (1.0, -0.1):
        with pytest.raises(AssertionError, match="leaves nothing"):
            Dropout(p)
