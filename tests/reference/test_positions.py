"""Absolute positions compared with their formulas, and the properties that the lectures require."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from heedful.attention import (
    IntegerPosition,
    LearnedPosition,
    RotaryPosition,
    SinusoidalPosition,
    UnitIntervalPosition,
    kernels,
)

D_MODEL = 16


def compute_sinusoid(positions: list[int], d_model: int = D_MODEL) -> Tensor:
    return SinusoidalPosition(d_model)(torch.tensor([positions]))[0]


def test_sinusoidal_formula() -> None:
    """Vaswani et al. 2017, 3.5."""
    positions = [0, 1, 2, 17, 1000, 123456]
    found = compute_sinusoid(positions)
    for row, t in zip(found.tolist(), positions, strict=True):
        for i in range(D_MODEL // 2):
            angle = t / 10000 ** (2 * i / D_MODEL)
            assert row[2 * i] == pytest.approx(math.sin(angle), abs=1e-9)
            assert row[2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-9)


def test_a_shift_is_the_same_rotation_at_all_positions() -> None:
    """PE(t + k) = R_k PE(t), with a matrix that depends only on k."""
    for k in (1, 5, 40):
        rotation = torch.zeros(D_MODEL, D_MODEL)
        for i in range(0, D_MODEL, 2):
            angle = k / 10000 ** (i / D_MODEL)
            rotation[i, i], rotation[i, i + 1] = math.cos(angle), math.sin(angle)
            rotation[i + 1, i], rotation[i + 1, i + 1] = -math.sin(angle), math.cos(angle)
        torch.testing.assert_close(rotation @ rotation.T, torch.eye(D_MODEL))
        for t in (0, 3, 700):
            torch.testing.assert_close(compute_sinusoid([t + k])[0], rotation @ compute_sinusoid([t])[0])


def test_the_distance_of_two_sinusoids_depends_only_on_their_difference() -> None:
    starts = list(range(0, 300, 7))
    for k in (1, 2, 10, 50):
        here, there = compute_sinusoid(starts), compute_sinusoid([t + k for t in starts])
        distance = (there - here).norm(dim=-1)
        expected = math.sqrt(sum(2 - 2 * math.cos(k / 10000 ** (i / D_MODEL)) for i in range(0, D_MODEL, 2)))
        torch.testing.assert_close(distance, torch.full_like(distance, expected))


def test_sinusoids_are_bounded_unique_and_of_equal_length() -> None:
    """This holds for all positions, also beyond the lengths of the training."""
    table = compute_sinusoid(list(range(3000)))
    assert table.abs().max() <= 1
    torch.testing.assert_close(table.norm(dim=-1), torch.full((3000,), math.sqrt(D_MODEL / 2)))
    apart = torch.cdist(table, table) + torch.eye(3000) * 9
    assert apart.min() > 0.1


def test_sinusoids_use_the_positions_of_each_row() -> None:
    rows = torch.tensor([[5, 2, 0], [-1, 0, 1]])
    found = SinusoidalPosition(D_MODEL)(rows)
    for row, column in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2)):
        torch.testing.assert_close(found[row, column], compute_sinusoid([int(rows[row, column])])[0])


def test_learned_positions_are_rows_of_a_trained_table() -> None:
    learned = LearnedPosition(9, 4)
    positions = torch.tensor([[3, 0, 8], [-1, 3, 3]])
    found = learned(positions)
    torch.testing.assert_close(found[0], learned.table.weight[[3, 0, 8]])
    torch.testing.assert_close(found[1, 1:], learned.table.weight[[3, 3]])
    found[:, 1:].sum().backward()
    assert learned.table.weight.grad is not None
    assert learned.table.weight.grad[:, 0].tolist() == [1, 0, 0, 2, 0, 0, 0, 0, 1]
    with pytest.raises(IndexError):
        learned(torch.tensor([[9]]))


def test_learned_positions_may_skip_their_first_rows() -> None:
    """BART does not use its first two rows."""
    learned = LearnedPosition(5, 4, offset=2)
    assert learned.table.weight.shape == (7, 4)
    torch.testing.assert_close(learned(torch.tensor([[0, 4]]))[0], learned.table.weight[[2, 6]])


def test_learned_positions_start_with_the_length_of_unscaled_embeddings() -> None:
    """Rows have expected length 1, as embeddings have; the mean over 1000 of them is within 2 %."""
    assert float(LearnedPosition(1000, 64).table.weight.detach().norm(dim=1).mean()) == pytest.approx(1, abs=0.02)


def test_the_first_rejected_idea() -> None:
    """0 at the first word and 1 at the last of each sentence, in each dimension, with any padding."""
    at = torch.tensor([[0, 1, 2, 3, 4], [0, 1, 2, -1, -1], [-1, -1, -1, 0, 1], [-1, 0, -1, -1, -1]])
    expected = [[0.0, 1 / 4, 2 / 4, 3 / 4, 1.0], [0.0, 1 / 2, 1.0], [0.0, 1.0], [0.0]]
    for row, positions, shares in zip(UnitIntervalPosition(3)(at), at, expected, strict=True):
        torch.testing.assert_close(row[positions >= 0], torch.tensor(shares).unsqueeze(1).expand(-1, 3))


def test_the_first_rejected_idea_with_a_given_length() -> None:
    """The share of a given length does not depend on later words."""
    at = torch.tensor([[0, 1, 4, 8], [0, 1, 2, -1]])
    found = UnitIntervalPosition(3, 9)(at)
    for row, t in zip((*found[0], *found[1, :3]), (0, 1, 4, 8, 0, 1, 2), strict=True):
        torch.testing.assert_close(row, torch.full((3,), t / 8))


@pytest.mark.parametrize(("first", "given"), [(1, {}), (0, {"first": 0})])
def test_the_second_rejected_idea(first: int, given: dict[str, int]) -> None:
    """The lecture assigns 1 to the first word and 2 to the second."""
    for row, t in zip(IntegerPosition(3, **given)(torch.tensor([[0, 1, 4, 8]]))[0], (0, 1, 4, 8), strict=True):
        torch.testing.assert_close(row, torch.full((3,), float(t + first)))


@pytest.mark.parametrize(
    "position",
    [SinusoidalPosition(4), UnitIntervalPosition(4), UnitIntervalPosition(4, 9), IntegerPosition(4)],
    ids=["sinusoidal", "unit interval", "unit interval of the longest", "integer"],
)
def test_only_learned_positions_learn(position: nn.Module) -> None:
    assert list(position.parameters()) == []
    assert position.state_dict() == {}


def make_heads(d_k: int, *, dtype: torch.dtype) -> Tensor:
    """Make heads as projections give them: [B, T, H, d_k] with H and T exchanged, not contiguous."""
    return torch.randn(2, 5, 3, d_k, generator=torch.Generator().manual_seed(3)).to(dtype).transpose(1, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("d_k", "width"), [(8, 8), (8, 4), (7, 6)])
def test_rotations_equal_the_formula(dtype: torch.dtype, d_k: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The product of complex numbers equals equation 34, which exports compute, and so do its gradients."""
    relative, positions = RotaryPosition(d_k, width=width).to(dtype), torch.tensor([[0, 1, 2, 3, 4], [7, 8, 9, -1, -1]])
    weights = make_heads(d_k, dtype=dtype).square()
    results = []
    for is_traced in (False, True):
        monkeypatch.setattr(kernels, "is_tracing", lambda is_traced=is_traced: is_traced)
        heads = make_heads(d_k, dtype=dtype).requires_grad_()
        rotated = relative.rotate(heads, positions)
        (gradient,) = torch.autograd.grad((rotated * weights).sum(), heads)
        results.append((rotated, gradient))
    # the same products and sums of two numbers, which compilers may fuse
    torch.testing.assert_close(results[0], results[1])
    assert results[0][0].dtype == dtype
    turned = results[0][0].detach()[0, :, 1, :2]
    before = make_heads(d_k, dtype=dtype)[0, :, 1, :2]
    rotation = torch.tensor([[math.cos(1), -math.sin(1)], [math.sin(1), math.cos(1)]], dtype=dtype)
    torch.testing.assert_close(turned, before @ rotation.T)


def test_rotations_in_bf16_round_once() -> None:
    """Sums of two products are rounded to 8 bits once, by at most 2^-8 of themselves; sines in fp32 add 1e-5."""
    relative, positions = RotaryPosition(16), torch.arange(40, 45).expand(2, 5)
    heads = make_heads(16, dtype=torch.bfloat16)
    exact = relative.double().rotate(heads.double(), positions)
    error = (RotaryPosition(16).rotate(heads, positions).double() - exact).abs()
    assert (error <= exact.abs() * 2.0**-8 + 1e-5).all()
