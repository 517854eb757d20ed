"""Windows that are computed block by block are the windows of the formula, and cost what they are wide."""

from __future__ import annotations

import itertools
from copy import deepcopy

import pytest
import torch
from torch import Tensor

from heedful.attention import (
    AttentionMask,
    CacheLayout,
    MultiHeadAttention,
    NoPosition,
    QuadraticPosition,
    RelativePosition,
    RotaryPosition,
    ShawPosition,
    SlidingWindow,
    bidirectional,
    causal,
    kernels,
    sliding_window,
)
from heedful.inspection.capture import watch_attention

D_MODEL, HEADS, KEYS = 8, 2, 13
D_K = D_MODEL // HEADS


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bands everywhere, of blocks so small that few tokens fill many of them."""
    monkeypatch.setattr(kernels, "_MIN_BLOCK_QUERIES", 2)
    monkeypatch.setattr(kernels, "_MIN_BAND_KEYS", 1)
    monkeypatch.setattr(kernels, "_MIN_BAND_GAIN", 0)


def masked(positions: Tensor, key_positions: Tensor, visibility: SlidingWindow) -> AttentionMask:
    visible = visibility(positions.unsqueeze(2), key_positions.unsqueeze(1))
    return AttentionMask.from_visible(positions, key_positions=key_positions, visible=visible)


def lines(padding: str) -> Tensor:
    """Positions of three rows in line: whole, short, with holes, and one without any token."""
    at = torch.arange(KEYS)
    rows = {
        "none": [at, at, at],
        "right": [at, at.where(at < 5, -1), at.where(at < 0, -1)],
        "left": [at, (at - 4).clamp(min=-1), at + 100],
        "holes": [at.where(torch.rand(KEYS) < 0.7, -1), at.where(at % 4 == 3, -1), at],
    }
    return torch.stack(rows[padding])


def outcome(
    attention: MultiHeadAttention, x: Tensor, *, seen: AttentionMask, memory: Tensor, real: Tensor
) -> tuple[Tensor, ...]:
    """Contexts where there is a query, and the gradients of their squares."""
    leaves = [x.clone().requires_grad_(), memory.clone().requires_grad_()]
    keys = attention.project_memory(leaves[1], leaves[1], seen.key_positions)
    contexts = attention(leaves[0], keys, mask=seen)[real]
    return contexts, *torch.autograd.grad(contexts.square().sum(), [*leaves, *attention.parameters()])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("queries", [KEYS, 6, 1])
@pytest.mark.parametrize("reach", [(0, 0), (1, 0), (0, 3), (2, 2), (7, 1)], ids=str)
@pytest.mark.parametrize("padding", ["none", "right", "left", "holes"])
def test_a_band_is_its_window(padding: str, reach: tuple[int, int], queries: int) -> None:
    """Values and gradients, also for the last tokens of a text whose first ones are a cache."""
    there = lines(padding)
    here, visibility = there[:, KEYS - queries :], sliding_window(*reach)
    near, far = CacheLayout(there).build_mask(here, visibility), masked(here, there, visibility)
    assert near.band is not None
    assert (near.visible, near.hidden, near.fully_masked) == (None, None, None)
    attention = MultiHeadAttention(D_MODEL, HEADS).double()
    x, memory = (torch.randn(3, n, D_MODEL, dtype=torch.float64) for n in (queries, KEYS))
    found, expected = (outcome(attention, x, seen=each, memory=memory, real=here >= 0) for each in (near, far))
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(
    "relative",
    [NoPosition(), RotaryPosition(D_K), ShawPosition(D_K, D_K, clip=2), QuadraticPosition(HEADS, 4)],
    ids=lambda relative: type(relative).__name__,
)
def test_positions_and_kernels_do_the_same_in_a_band(
    relative: RelativePosition, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "prefer_fused", lambda *_: fused)
    attention = MultiHeadAttention(D_MODEL, HEADS, relative=deepcopy(relative)).double()
    x, at = torch.randn(3, KEYS, D_MODEL, dtype=torch.float64), lines("left")
    found, expected = (
        outcome(attention, x, seen=seen, memory=x, real=at >= 0)
        for seen in (CacheLayout(at).build_mask(at, sliding_window(3, 1)), masked(at, at, sliding_window(3, 1)))
    )
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("length", [256, 700])
def test_a_long_text_in_single_precision(length: int) -> None:
    """As attention decides by itself: within 1e-5 of the masked products."""
    at = torch.arange(length).expand(2, -1).clone()
    at[1, 200:] = -1
    attention, x = MultiHeadAttention(64, 2), torch.randn(2, length, 64)
    near, far = CacheLayout(at).build_mask(at, sliding_window(20, 9)), masked(at, at, sliding_window(20, 9))
    assert near.band is not None
    with torch.no_grad():
        memory = attention.project_memory(x, x, at)
        error = (attention(x, memory, mask=near) - attention(x, memory, mask=far))[at >= 0].abs().max()
    assert float(error) < 1e-5


@pytest.mark.usefixtures("small_blocks")
def test_a_query_that_sees_nothing_gets_zeros() -> None:
    at = torch.arange(KEYS)[None]
    holes = at.where((at < 2) | (at > 8), -1)
    sight = CacheLayout(holes).build_mask(at, sliding_window(1, 1))
    assert sight.band is not None
    attention = MultiHeadAttention(D_MODEL, HEADS, bias=False)
    x = torch.randn(1, KEYS, D_MODEL)
    found = attention(x, attention.project_memory(x, x, holes), mask=sight)[0]
    assert (found.abs().amax(-1) == 0).tolist() == [3 <= place <= 7 for place in range(KEYS)]


@pytest.mark.usefixtures("small_blocks")
def test_who_watches_sees_the_weights_of_all_keys() -> None:
    at = lines("left")
    attention, x = MultiHeadAttention(D_MODEL, HEADS), torch.randn(3, KEYS, D_MODEL)
    memory = attention.project_memory(x, x, at)
    seen = []
    for sight in (CacheLayout(at).build_mask(at, sliding_window(2, 1)), masked(at, at, sliding_window(2, 1))):
        with watch_attention(attention) as weights:
            seen.append((attention(x, memory, mask=sight), weights[""][0]))
    for mine, other in zip(*seen, strict=True):
        assert torch.equal(mine, other)
    assert seen[0][1].shape == (3, HEADS, KEYS, KEYS)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["permuted", "a gap", "elsewhere", "of another text", "two in a group"])
def test_tokens_out_of_line_have_no_band(name: str) -> None:
    at = torch.arange(KEYS).expand(3, -1).clone()
    here, slots = at, CacheLayout(at)
    match name:
        case "permuted":
            at[2, [3, 4]] = at[2, [4, 3]]
        case "a gap":
            at[1, 6:] += 1
        case "elsewhere":
            here = at + torch.tensor([[0], [1], [0]])
        case "of another text":
            here = at[:, :4]  # the first tokens, not the last
        case "two in a group":
            slots = CacheLayout(at, width=2)
    sight = slots.build_mask(here, sliding_window(1, 1))
    assert sight.band is None
    expected = masked(here, at, sliding_window(1, 1))
    assert sight.visible is not None
    assert torch.equal(sight.visible, expected.visible)
    assert expected.to_dense() is expected


def test_bands_are_for_windows_much_smaller_than_the_text() -> None:
    for length, reach, banded in ((255, 4, False), (256, 4, True), (256, 60, False), (1024, 100, True)):
        at = torch.arange(length)[None]
        assert (CacheLayout(at).build_mask(at, sliding_window(reach, reach)).band is not None) == banded, (
            length,
            reach,
        )
        assert CacheLayout(at).build_mask(at, causal).band is None
        assert CacheLayout(at).build_mask(at, bidirectional).band is None


@pytest.mark.parametrize(("reach", "full"), [((None, None), bidirectional), ((None, 0), causal)], ids=["both", "past"])
@pytest.mark.parametrize("length", [5, 300, 600])
def test_a_window_as_long_as_the_text_is_full_attention_to_the_last_bit(reach, full, length: int) -> None:
    """r >= n: nothing is hidden that full attention shows, so the same kernel gets the same mask, or none."""
    at = torch.arange(length).expand(2, -1)
    attention = MultiHeadAttention(D_MODEL, HEADS)
    x = torch.randn(2, length, D_MODEL)
    expected = outcome(attention, x, seen=CacheLayout(at).build_mask(at, full), memory=x, real=at >= 0)
    for r in (length - 1, length, 10 * length):
        restricted = sliding_window(*(r if side is None else side for side in reach))
        found = outcome(attention, x, seen=CacheLayout(at).build_mask(at, restricted), memory=x, real=at >= 0)
        assert all(torch.equal(mine, other) for mine, other in zip(found, expected, strict=True))


class Peak(torch.utils._python_dispatch.TorchDispatchMode):
    """The largest tensor that any operation makes, in elements."""

    largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for each in made if isinstance(made, tuple | list) else (made,):
            if isinstance(each, Tensor):
                self.largest = max(self.largest, each.numel())
        return made


def test_nothing_as_large_as_the_square_of_the_text_is_made() -> None:
    """Forward and backward; twice the text takes tensors of twice the size."""
    attention = MultiHeadAttention(D_MODEL, HEADS, relative=ShawPosition(D_K, D_K, clip=3))
    largest = []
    for length in (512, 1024, 2048):
        at = torch.arange(length)[None]
        x = torch.randn(1, length, D_MODEL, requires_grad=True)
        with Peak() as peak:
            seen = CacheLayout(at).build_mask(at, sliding_window(6, 6))
            attention(x, attention.project_memory(x, x, at), mask=seen).sum().backward()
        largest.append(peak.largest)
    assert [b / a for a, b in itertools.pairwise(largest)] == [2, 2]
    assert largest[0] < 512**2
