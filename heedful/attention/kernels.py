"""Which kernel computes attention: a measured choice, made here alone, that never changes the result."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from heedful.attention.visibility import Window

_FUSED_FROM = 512
"""Keys from which torch's fused kernel wins on a CPU; below, explicit products train up to 15 times faster."""
_SHORT = 16
"""Keys below which torch's softmax over fp32 on a CPU leaves its vectorised code: 15 cost 15 times what 16 do."""
_MANY = 4096
"""Scores from which that costs more than the four operations that avoid it."""


_BLOCK = 32
"""Queries that a block of a band has at least: products of fewer rows are not worth their calls."""
_BAND_FROM, _BAND_GAIN = 256, 2
"""Keys from which a band may be worth its copies, and how many times fewer of them a query must then meet."""


def block(queries: int, *, window: Window) -> tuple[int, int]:
    """Queries and keys of a block of a band; at most half of its scores are hidden where windows are wide."""
    reach = window.before + window.after
    size = min(max(_BLOCK, 1 << max(reach - 1, 1).bit_length() - 1), queries)
    return size, size + reach


def prefer_band(queries: int, keys: int, *, window: Window) -> bool:
    """Whether a window is computed block by block, not as a mask over all keys (docs/performance.md)."""
    _, met = block(queries, window=window)
    return queries > 0 and keys >= max(_BAND_FROM, _BAND_GAIN * met)


def prefer_fused(query: Float[Tensor, "B H Q d_k"], key: Float[Tensor, "B H K d_k"]) -> bool:
    """Whether torch's fused kernel is the faster one for these shapes on this device (docs/performance.md)."""
    if query.device.type != "cpu":
        return True
    return key.size(2) >= _FUSED_FROM and query.size(2) > 1


def fused(
    query: Float[Tensor, "B H Q d_k"],
    key: Float[Tensor, "B H K d_k"],
    *,
    value: Float[Tensor, "B H K d_v"],
    visible: Bool[Tensor, "B 1 Q K"] | None,
    blind: Bool[Tensor, "B 1 Q 1"] | None,
    dropout: float,
) -> Float[Tensor, "B H Q d_v"]:
    """softmax(q k / sqrt(d_k)) v in one kernel that never forms the weights."""
    if visible is not None and blind is not None:
        visible = visible | blind  # some kernels give NaN for a row that is masked entirely
    context = functional.scaled_dot_product_attention(query, key, value, attn_mask=visible, dropout_p=dropout)
    return context if blind is None else context.masked_fill(blind, 0.0)


def scaled_products(
    query: Float[Tensor, "B H Q d_k"], key: Float[Tensor, "B H K d_k"], *, scale: float
) -> Float[Tensor, "B H Q K"]:
    """scale * q . k, scaled inside the product; torch's own matmul would pass over the result once more."""
    batch, heads, queries, _ = query.shape
    nothing = query.new_empty(1)  # beta=0: it is not read
    keys = key.flatten(0, 1).transpose(1, 2)
    scores = torch.baddbmm(nothing, query.flatten(0, 1), keys, beta=0, alpha=scale)
    return scores.view(batch, heads, queries, key.size(2))


def combined(weights: Float[Tensor, "B H Q K"], value: Float[Tensor, "B H K d_v"]) -> Float[Tensor, "B H Q d_v"]:
    """Each query's sum of values by its weights."""
    batch, heads, queries, _ = weights.shape
    context = torch.bmm(weights.flatten(0, 1), value.flatten(0, 1))
    return context.view(batch, heads, queries, value.size(3))


def masked_softmax(
    scores: Float[Tensor, "B H Q K"],
    *,
    hidden: Bool[Tensor, "B 1 Q K"] | None,
    blind: Bool[Tensor, "B 1 Q 1"] | None,
) -> Float[Tensor, "B H Q K"]:
    """`heedful.attention.choice.softmax` for scores that may be overwritten."""
    if hidden is None:
        return _softmax(scores)
    weights = _softmax(scores.masked_fill_(hidden, torch.finfo(scores.dtype).min))
    return weights if blind is None else weights.masked_fill(blind, 0.0)


def _softmax(scores: Tensor) -> Tensor:
    """Over the keys, by whichever way is faster."""
    short = scores.size(-1) < _SHORT and scores.numel() >= _MANY
    if not short or scores.dtype != torch.float32 or scores.device.type != "cpu":
        return scores.softmax(-1)
    if not (torch.is_grad_enabled() and scores.requires_grad):
        return _short_softmax(scores)
    result: Tensor = _ShortSoftmax.apply(scores)  # type: ignore[no-untyped-call]  # torch's
    return result


def _short_softmax(scores: Tensor) -> Tensor:
    exponent = torch.sub(scores, scores.amax(-1, keepdim=True)).exp_()
    return exponent.div_(exponent.sum(-1, keepdim=True))


class _ShortSoftmax(torch.autograd.Function):
    """Softmax over few keys in element-wise operations; its gradient is w (g - sum(g w))."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights = _short_softmax(scores)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (gradient,) = gradients
        (weights,) = ctx.saved_tensors
        product = gradient * weights
        result: Tensor = product.addcmul_(weights, product.sum(-1, keepdim=True), value=-1)
        return result
