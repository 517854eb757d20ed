"""Whichever kernel computes it, attention is the same: every mask, values and gradients, short and long."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from heedful import fused_operators
from heedful.attention import (
    AttentionMask,
    MultiHeadAttention,
    RotaryPosition,
    ShawPosition,
    bidirectional,
    causal,
    kernels,
    sliding_window,
    softmax,
)
from heedful.attention.mask import CacheLayout

ROWS, HEADS, LENGTH, D_K = 3, 2, 5, 4
D_MODEL = HEADS * D_K


def nothing_hidden() -> Tensor:
    return torch.ones(ROWS, LENGTH, LENGTH, dtype=torch.bool)


def padded() -> Tensor:
    key = torch.tensor([[0, 1, 2, 3, 4], [0, 1, 2, -1, -1], [-1, 0, 1, 2, 3]])
    return bidirectional(torch.arange(LENGTH).expand(ROWS, -1).unsqueeze(2), key.unsqueeze(1))


def by(visibility: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], Tensor]:
    at = torch.arange(LENGTH).expand(ROWS, -1)
    return lambda: visibility(at.unsqueeze(2), at.unsqueeze(1))


def at_random() -> Tensor:
    return torch.rand(ROWS, LENGTH, LENGTH) < 0.5


def with_blind_queries() -> Tensor:
    visible = at_random()
    visible[0, 2] = visible[1] = False
    return visible


MASKS = {
    "nothing hidden": nothing_hidden,
    "padding": padded,
    "causal": by(causal),
    "window": by(sliding_window(1, 2)),
    "at random": at_random,
    "blind queries": with_blind_queries,
}


def same(found: Tensor, expected: Tensor) -> None:
    """In single precision: every number is a sum of terms of which some are as large as the largest number."""
    largest = max(1.0, float(expected.detach().abs().max()))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * largest)


def sight(visible: Tensor) -> AttentionMask:
    at = torch.arange(LENGTH).expand(ROWS, -1)
    return AttentionMask.from_visible(at, key_positions=at, visible=visible)


@pytest.mark.parametrize("mask", MASKS)
def test_the_fused_kernel_is_the_formula(mask: str) -> None:
    visible = MASKS[mask]()
    seen = sight(visible)
    shape = (ROWS, HEADS, LENGTH, D_K)
    query, key, value, weight = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(4))
    found = kernels.fused_attention(
        query, key, value=value, visible=seen.visible, fully_masked=seen.fully_masked, dropout=0.0
    )
    expected = softmax(query @ key.mT / math.sqrt(D_K), visible.unsqueeze(1).expand(-1, HEADS, -1, -1)) @ value
    torch.testing.assert_close(found, expected)
    leaves = [query, key, value]
    for mine, other in zip(
        torch.autograd.grad((found * weight).sum(), leaves),
        torch.autograd.grad((expected * weight).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mask", MASKS)
def test_the_softmax_in_place_is_the_softmax(mask: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of few keys in single precision, which has a way of its own, and its gradient."""
    monkeypatch.setattr(kernels, "_MANY_SCORES", 0)
    visible = MASKS[mask]()
    seen = sight(visible)
    scores = (torch.randn(ROWS, HEADS, LENGTH, LENGTH, dtype=dtype) * 5).requires_grad_()
    weight = torch.randn_like(scores)
    expected = softmax(scores, visible.unsqueeze(1).expand(-1, HEADS, -1, -1))
    found = kernels.masked_softmax(scores.clone(), hidden=seen.hidden, fully_masked=seen.fully_masked)
    torch.testing.assert_close(found, expected)
    mine, other = (torch.autograd.grad((each * weight).sum(), scores) for each in (found, expected))
    torch.testing.assert_close(mine, other)
    with torch.no_grad():
        again = kernels.masked_softmax(scores.clone(), hidden=seen.hidden, fully_masked=seen.fully_masked)
    torch.testing.assert_close(again, found.detach())
    assert (found.sum(-1) == 0).any() == (mask == "blind queries" or bool((~visible.any(-1)).any()))


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("relative", ["unaware", "rotary"])
def test_a_module_gives_the_same_with_either_kernel(mask: str, relative: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside training also where it has dropout."""
    attention = MultiHeadAttention(
        D_MODEL, HEADS, relative=RotaryPosition(D_K) if relative == "rotary" else None, dropout=0.5
    ).eval()
    seen = sight(MASKS[mask]())
    x = torch.randn(ROWS, LENGTH, D_MODEL)
    results = []
    for choice in (True, False):
        monkeypatch.setattr(kernels, "prefer_fused", lambda *_, choice=choice: choice)
        memory = attention.project_memory(x, x, seen.positions)
        found = attention(x, memory, mask=seen)
        gradients = torch.autograd.grad(found.square().sum(), list(attention.parameters()))
        results.append((found, *gradients))
    for fused, explicit in zip(*results, strict=True):
        same(fused, explicit)


def test_the_fused_kernel_runs_where_it_is_faster_and_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_operators, "load_library", lambda: None)
    calls: list[int] = []
    fused = kernels.fused_attention

    def counted(query: Tensor, key: Tensor, **more: object) -> Tensor:
        calls.append(key.size(2))
        result: Tensor = fused(query, key, **more)
        return result

    monkeypatch.setattr(kernels, "fused_attention", counted)
    long = kernels._MIN_FUSED_KEYS

    def attend(attention: MultiHeadAttention, queries: int, keys: int) -> Tensor:
        x, memory = torch.ones(1, queries, D_MODEL), torch.randn(1, keys, D_MODEL)
        positions, at = torch.arange(queries)[None], torch.arange(keys)[None]
        visible = torch.ones(1, queries, keys, dtype=torch.bool)
        seen = AttentionMask.from_visible(positions, key_positions=at, visible=visible)
        result: Tensor = attention(x, attention.project_memory(memory, memory, at), mask=seen)
        return result

    plain = MultiHeadAttention(D_MODEL, HEADS, dropout=0.5)
    attend(plain, 2, long)  # torch's kernel has no dropout of its own
    plain.eval()
    assert not calls
    with torch.no_grad():
        attend(plain, 2, long)
        attend(plain, 2, long - 1)
        attend(plain, 1, long)
    assert calls == [long]
    attend(plain, 2, 3)  # somebody may want a gradient
    attend(plain, 1, 3)
    assert calls == [long, 3]
    attend(MultiHeadAttention(D_MODEL, HEADS, relative=ShawPosition(D_K, D_K, clip=2)), 2, long)
    handle = plain.probe.register_forward_hook(lambda *_: None)
    attend(plain, 2, long)
    assert calls == [long, 3]
    handle.remove()
    attend(plain, 2, long)
    assert calls == [long, 3, long]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_in_bf16_the_gradient_of_explicit_products_is_the_faster_one(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a CPU, and as long as the weights need not much memory."""
    monkeypatch.setattr(fused_operators, "load_library", lambda: None)
    query = torch.zeros(1, 1, 2, D_K, dtype=dtype)
    short, long, very_long = (torch.zeros(1, 1, keys, D_K, dtype=dtype) for keys in (64, 2048, 2049))
    assert kernels.prefer_fused(query, short, 0.0), "nobody wants a gradient"
    query.requires_grad_()
    half = dtype == torch.bfloat16
    assert [kernels.prefer_fused(query, key, 0.0) for key in (short, long, very_long)] == [not half, not half, True]
    assert not kernels.prefer_fused(query, very_long, 0.1), "torch's kernel has no dropout of its own"
    assert kernels.prefer_fused(query.to("meta"), short.to("meta"), 0.1)


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("many", [0, 10**9])
def test_products_in_one_node_are_the_formula(
    mask: str, dropout: float, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for few keys in single precision, and with the same draws as dropout of weights that are looked at."""
    monkeypatch.setattr(kernels, "_MANY_SCORES", many)
    monkeypatch.setattr(kernels, "prefer_fused", lambda *_: False)
    attention = MultiHeadAttention(D_MODEL, HEADS, dropout=dropout)
    seen = sight(MASKS[mask]())
    x = torch.randn(ROWS, LENGTH, D_MODEL, requires_grad=True)
    weight = torch.randn(ROWS, LENGTH, D_MODEL)
    results = []
    for watched in (False, True):
        handle = attention.probe.register_forward_hook(lambda *_: None) if watched else None
        torch.manual_seed(5)
        found = attention(x, attention.project_memory(x, x, seen.positions), mask=seen)
        results.append((found, *torch.autograd.grad((found * weight).sum(), [x, *attention.parameters()])))
        if handle is not None:
            handle.remove()
    for mine, other in zip(*results, strict=True):
        same(mine, other)


def test_rows_that_are_one_in_memory_see_what_rows_apart_see() -> None:
    """And what they see is found out once."""
    at = torch.arange(LENGTH).expand(ROWS, -1)
    nothing = torch.empty(ROWS, 0, dtype=torch.int64)
    together = CacheLayout(nothing).extend(at).build_mask(at, causal)
    apart = CacheLayout(nothing).extend(at.clone()).build_mask(at.clone(), causal)
    assert together.hidden is not None
    assert together.hidden.stride(0) == 0
    for name in ("visible", "hidden"):
        torch.testing.assert_close(getattr(together, name), getattr(apart, name))
    attention = MultiHeadAttention(D_MODEL, HEADS)
    x = torch.randn(ROWS, LENGTH, D_MODEL)
    for watched in (False, True):
        handle = attention.probe.register_forward_hook(lambda *_: None) if watched else None
        one, other = (attention(x, attention.project_memory(x, x, at), mask=each) for each in (together, apart))
        torch.testing.assert_close(one, other)
        if handle is not None:
            handle.remove()


@pytest.mark.parametrize("fused", [True, False])
def test_weights_are_dropped_in_training_alone(fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean over many draws is what comes out without dropout."""
    monkeypatch.setattr(kernels, "prefer_fused", lambda *_: fused)
    attention = MultiHeadAttention(D_MODEL, HEADS, dropout=0.5)
    x = torch.randn(1, LENGTH, D_MODEL).expand(2000, -1, -1)
    at = torch.arange(LENGTH).expand(2000, -1)
    seen = AttentionMask(at, at, None, None, None)
    with torch.no_grad():
        calm = attention.eval()(x, attention.project_memory(x, x, at), mask=seen)
        wild = attention.train()(x, attention.project_memory(x, x, at), mask=seen)
    assert torch.allclose(calm[0], calm[1])
    assert not torch.allclose(wild[0], wild[1])
    error = (wild.mean(0) - calm[0]).abs() / (wild.std(0) / math.sqrt(2000))
    assert float(error.max()) < 5


@pytest.mark.parametrize("queries", [1, 3])
def test_products_are_those_of_the_formula_however_tensors_lie_in_memory(queries: int) -> None:
    """Heads that are views of one projection, keys that are part of a larger room."""
    query = torch.randn(ROWS, queries, HEADS, D_K).transpose(1, 2).requires_grad_()
    room = torch.randn(2, ROWS, HEADS, 9, D_K).requires_grad_()
    key, value = room.narrow(3, 0, LENGTH)
    scores = kernels.scaled_dot_products(query, key, scale=0.3)
    expected = 0.3 * torch.einsum("bhqd,bhkd->bhqk", query, key)
    torch.testing.assert_close(scores, expected)
    context = kernels.weighted_sum(scores, value)
    wanted = torch.einsum("bhqk,bhkd->bhqd", expected, value)
    torch.testing.assert_close(context, wanted)
    ours = torch.autograd.grad(context.square().sum(), (query, room), retain_graph=True)
    theirs = torch.autograd.grad(wanted.square().sum(), (query, room))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)
