"""Which kernel computes attention: a measured choice, made here alone, that never changes the result."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from heedful.attention.visibility import Window

_FUSED_FROM = 64
"""Keys from which torch's fused kernel wins on a CPU where no gradient is asked for."""
_LONG = 2048
"""Keys up to which explicit products are known to train faster in bf16 on a CPU; weights of more need much memory."""
_SHORT = 16
"""Keys below which torch's softmax over fp32 on a CPU leaves its vectorised code: 15 cost 15 times what 16 do."""
_MANY = 4096
"""Scores from which that costs more than the four operations that avoid it."""


_BLOCK = 32
"""Queries that a block of a band has at least: products of fewer rows are not worth their calls."""
_BAND_FROM, _BAND_GAIN = 256, 2
"""Keys from which a band may be worth its copies, and how many times fewer of them a query must then meet."""


def traced() -> bool:
    """Whether the program is being written down, as an export does.

    Tensors have no values then that could be looked at, and their sizes stand for all others, so nothing may be chosen
    by either.
    """
    return torch.compiler.is_compiling()


def block(queries: int, *, window: Window) -> tuple[int, int]:
    """Queries and keys of a block of a band; at most half of its scores are hidden where windows are wide."""
    reach = window.before + window.after
    size = min(max(_BLOCK, 1 << max(reach - 1, 1).bit_length() - 1), queries)
    return size, size + reach


def prefer_band(queries: int, keys: int, *, window: Window) -> bool:
    """Whether a window is computed block by block, not as a mask over all keys (docs/performance.md)."""
    if traced():
        return False
    _, met = block(queries, window=window)
    return queries > 0 and keys >= max(_BAND_FROM, _BAND_GAIN * met)


def prefer_fused(query: Float[Tensor, "B H Q d_k"], key: Float[Tensor, "B H K d_k"], dropout: float) -> bool:
    """Whether torch's fused kernel is the faster one for these shapes on this device (docs/performance.md).

    On a CPU its dropout falls back to plain operations, which are slower than those here, and its gradient in bf16
    takes two to 16 times as long as theirs.
    """
    if query.device.type != "cpu" or traced():
        return True
    if dropout > 0 or query.size(2) == 1:
        return False
    if learning(query):
        return query.dtype != torch.bfloat16 or key.size(2) > _LONG
    return key.size(2) >= _FUSED_FROM


def learning(query: Float[Tensor, "B H Q d_k"]) -> bool:
    """Whether a gradient will be asked for."""
    return torch.is_grad_enabled() and query.requires_grad


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
    if visible is not None:
        visible = _once(visible)
    context = functional.scaled_dot_product_attention(query, key, value, attn_mask=visible, dropout_p=dropout)
    return context if blind is None else context.masked_fill(blind, 0.0)


def explicit(
    query: Float[Tensor, "B H Q d_k"],
    key: Float[Tensor, "B H K d_k"],
    *,
    value: Float[Tensor, "B H K d_v"],
    scale: float,
    hidden: Bool[Tensor, "B 1 Q K"] | None,
    blind: Bool[Tensor, "B 1 Q 1"] | None,
    factors: Float[Tensor, "B H Q K"] | None,
) -> Float[Tensor, "B H Q d_v"]:
    """The same with weights that are formed, and multiplied by `factors` (dropout), in one node of the graph.

    Its gradient copies each of the three once and passes over the weights as often as it must; that of the single
    operations also masks the gradient of the scores, which is zero there already.
    """
    node = _Explicit.apply
    result: Tensor = node(query, key, value, scale, hidden, blind, factors)  # type: ignore[no-untyped-call]  # torch's
    return result


class _Explicit(torch.autograd.Function):
    """Gradients of softmax(s q k) v: with g that of a context, dw = g v and ds = w (dw - sum(dw w))."""

    @staticmethod
    def forward(  # noqa: PLR0917 -- autograd passes by position
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float,
        hidden: Tensor | None,
        blind: Tensor | None,
        factors: Tensor | None,
    ) -> Tensor:
        query, key, value = (heads.contiguous() for heads in (query, key, value))
        weights = masked_softmax(scaled_products(query, key, scale=scale), hidden=hidden, blind=blind)
        ctx.save_for_backward(query, key, value, weights, factors)
        ctx.scale = scale
        return combined(_thinned(weights, factors), value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, factors = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        d_value = combined(_thinned(weights, factors).transpose(2, 3), gradient)
        d_kept = scaled_products(gradient, value, scale=1.0)
        d_scores = _softmax_gradient(d_kept if factors is None else d_kept.mul_(factors), weights)
        d_query = scaled_products(d_scores, key.transpose(2, 3), scale=ctx.scale)
        d_key = scaled_products(d_scores.transpose(2, 3), query.transpose(2, 3), scale=ctx.scale)
        return d_query, d_key, d_value, None, None, None, None


def _thinned(weights: Tensor, factors: Tensor | None) -> Tensor:
    return weights if factors is None else weights * factors


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
    weights = _softmax(_mask(scores, hidden))
    return weights if blind is None else weights.masked_fill(blind, 0.0)


def _mask(scores: Tensor, hidden: Tensor) -> Tensor:
    """The lowest number where something is hidden, in place."""
    lowest = torch.finfo(scores.dtype).min
    if traced() or scores.numel() < _MANY:
        return scores.masked_fill_(hidden, lowest)
    # a sum is vectorised, and beside the lowest number a score is nothing
    return scores.add_(_once(hidden).to(scores.dtype).mul_(lowest))


def _once(mask: Tensor) -> Tensor:
    """One row of a mask that is the same for all rows."""
    return mask[:1] if mask.stride(0) == 0 else mask


def _slow(scores: Tensor) -> bool:
    """Whether torch's softmax would leave its vectorised code, and that matters."""
    if traced():
        return False
    short = scores.size(-1) < _SHORT and scores.numel() >= _MANY
    return short and scores.dtype == torch.float32 and scores.device.type == "cpu"


def _softmax(scores: Tensor) -> Tensor:
    """Over the keys, by whichever way is faster."""
    if not _slow(scores):
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
        (weights,) = ctx.saved_tensors
        return _softmax_gradient(gradients[0], weights)


def _softmax_gradient(gradient: Tensor, weights: Tensor) -> Tensor:
    """w (g - sum(g w)), by whichever way is faster."""
    if not _slow(weights):
        # what autograd itself calls for a softmax; there is no public name for it
        return torch._softmax_backward_data(gradient, weights, -1, weights.dtype)
    product = gradient * weights
    result: Tensor = product.addcmul_(weights, product.sum(-1, keepdim=True), value=-1)
    return result
