"""Lineups, windows and gates on their own."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from heedful.blocks.convolution import (
    CausalConvolution,
    CentredConvolution,
    GatedConvolution,
    PackedTokens,
    scaled_residual_add,
    variance_scaled_linear,
)

D = 4


def scattered(rows: int, columns: int) -> Tensor:
    """Positions in any order with gaps, -1 in between; the first row is empty."""
    positions = torch.stack([torch.randperm(3 * columns)[:columns] for _ in range(rows)])
    positions[torch.rand(rows, columns) < 0.4] = -1
    positions[0] = -1
    return positions


def places(positions: Tensor) -> list[list[int]]:
    """The columns with a token, in the order of their positions, by sorting pairs."""
    return [[c for p, c in sorted((p, c) for c, p in enumerate(row) if p >= 0)] for row in positions.tolist()]


def test_a_lineup_has_tokens_in_order_and_nothing_behind_them() -> None:
    positions = scattered(6, 8)
    lineup, x = PackedTokens.from_positions(positions), torch.randn(6, 8, D)
    line = lineup.zero_padding(lineup.pack(x))
    for row, columns in enumerate(places(positions)):
        torch.testing.assert_close(line[row, : len(columns)], x[row, columns])
        assert not line[row, len(columns) :].any()
    assert torch.equal(lineup.unpack(lineup.pack(x)), x)


@pytest.mark.parametrize(
    ("positions", "reordered", "masked"),
    [
        ([[0, 1, 2], [4, 5, 6]], False, False),
        ([[0, 1, 2], [0, -1, -1]], False, True),
        ([[0, 1, 2], [-1, 0, 1]], True, True),
        ([[0, 1, 2], [1, 0, 2]], True, False),
        ([[3], [-1]], False, True),
    ],
    ids=["full", "padded right", "padded left", "unordered", "one column"],
)
def test_nothing_is_moved_or_masked_in_vain(positions: list[list[int]], reordered: bool, masked: bool) -> None:
    lineup = PackedTokens.from_positions(torch.tensor(positions))
    assert (lineup.order is not None, lineup.token_mask is not None) == (reordered, masked)


def test_what_stands_in_padding_is_gone_even_if_it_is_no_number() -> None:
    lineup = PackedTokens.from_positions(torch.tensor([[0, -1, 1]]))
    assert lineup.zero_padding(lineup.pack(torch.tensor([[[1.0], [math.nan], [2.0]]]))).flatten().tolist() == [1, 2, 0]


@pytest.mark.parametrize("span", [0, 1, 3, 9])
def test_the_last_entries_of_a_history_are_tokens(span: int) -> None:
    positions = scattered(6, 5)
    lineup, x, past = PackedTokens.from_positions(positions), torch.randn(6, 5, D), torch.randn(6, span, D)
    found = lineup.last_entries(torch.cat((past, lineup.pack(x)), 1), span)
    for row, columns in enumerate(places(positions)):
        everything = torch.cat((past[row], x[row, columns]))
        torch.testing.assert_close(found[row], everything[len(everything) - span :])


@torch.no_grad()
@pytest.mark.parametrize(("width", "dilation"), [(1, 1), (2, 1), (3, 1), (3, 4), (5, 2)])
def test_a_gated_convolution_is_torchs_convolution_and_gate(width: int, dilation: int) -> None:
    gated = GatedConvolution(D, width, dilation=dilation)
    x = torch.randn(3, 21, D)
    kernel = gated.linear.weight.view(2 * D, width, D).transpose(1, 2)
    both = functional.conv1d(x.transpose(1, 2), kernel, gated.linear.bias, dilation=dilation).transpose(1, 2)
    found = gated(x)
    assert found.shape == (3, 21 - gated.span, D)
    torch.testing.assert_close(found, both[..., :D] * torch.sigmoid(both[..., D:]))


@torch.no_grad()
@pytest.mark.parametrize(("width", "dilation"), [(1, 1), (3, 1), (3, 2), (5, 3)])
def test_centred_windows(width: int, dilation: int) -> None:
    """Each row as if it were alone and without its padding, surrounded by zeros."""
    layer, positions = CentredConvolution(D, width, dilation=dilation).eval(), scattered(5, 9)
    x = torch.randn(5, 9, D)
    found, side = layer(x, PackedTokens.from_positions(positions)), (width - 1) // 2 * dilation
    assert found.isfinite().all()
    for row, columns in enumerate(places(positions)):
        zeros = torch.zeros(1, side, D)
        alone = torch.cat((zeros, x[row : row + 1, columns], zeros), 1)
        torch.testing.assert_close(found[row, columns], layer.gated(alone)[0])


@torch.no_grad()
@pytest.mark.parametrize(("width", "dilation"), [(1, 1), (2, 1), (3, 1), (3, 2), (4, 3)])
def test_causal_windows_over_any_cuts(width: int, dilation: int) -> None:
    layer = CausalConvolution(D, width, dilation=dilation).eval()
    x, real = torch.randn(4, 11, D), torch.rand(4, 11) > 0.3
    positions = torch.where(real, real.cumsum(1) - 1, -1)
    for cuts in ([11], [1] * 11, [4, 0, 1, 6]):
        past, parts, start = layer.init_state(4, reference=x), [], 0
        for size in cuts:
            lineup = PackedTokens.from_positions(positions[:, start : start + size])
            part, past = layer(x[:, start : start + size], past, packed=lineup)
            assert past.shape == (4, (width - 1) * dilation, D)
            parts.append(part)
            start += size
        found = torch.cat(parts, 1)
        for row in range(4):
            alone = torch.cat((torch.zeros(1, layer.gated.span, D), x[row : row + 1, real[row]]), 1)
            torch.testing.assert_close(found[row, real[row]], layer.gated(alone)[0])


def test_a_window_without_a_middle_is_refused() -> None:
    with pytest.raises(AssertionError, match="no middle"):
        CentredConvolution(D, 4)


def test_dropout_thins_the_input_of_the_convolution() -> None:
    """Zeros that were not there before, and the others scaled so that the expectation stays."""
    seen: list[Tensor] = []
    for layer in (CentredConvolution(64, 3, dropout=0.25), CausalConvolution(64, 3, dropout=0.25)):
        layer.train().gated.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        x, lineup = torch.ones(4, 16, 64), PackedTokens.from_positions(torch.arange(16).expand(4, -1))
        if isinstance(layer, CentredConvolution):
            layer(x, lineup)
        else:
            layer(x, layer.init_state(4, reference=x), packed=lineup)
        line = (
            seen[-1][:, layer.gated.span // 2 :][:, :16] if isinstance(layer, CentredConvolution) else seen[-1][:, 2:]
        )
        assert line.unique().tolist() == pytest.approx([0, 1 / 0.75])
        assert float((line == 0).float().mean()) == pytest.approx(0.25, abs=0.03)


def test_a_halved_sum_keeps_the_variance() -> None:
    x, y = torch.randn(2, 50_000)
    torch.testing.assert_close(scaled_residual_add(x, y).square(), (x + y).square() / 2)
    assert float(scaled_residual_add(x, y).var()) == pytest.approx(1, abs=0.03)


@torch.no_grad()
def test_a_projection_gives_the_variance_it_promises() -> None:
    for variance in (1.0, 3.0):
        linear = variance_scaled_linear(400, 300, variance=variance)
        assert float(linear(torch.randn(200, 400)).var()) == pytest.approx(variance, rel=0.05)
        assert not linear.bias.any()
