"""Which kernel computes attention: a measured choice, made here alone, that never changes the result."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from heedful.attention.mask_functions import SlidingWindow

_MIN_FUSED_KEYS = 64
"""Keys from which torch's fused kernel wins on a CPU where no gradient is asked for."""
_LONG_KEYS = 2048
"""Keys up to which explicit products are known to train faster in bf16 on a CPU; weights of more need much memory."""
_SHORT_KEYS = 16
"""Keys below which torch's softmax over fp32 on a CPU leaves its vectorised code: 15 cost 15 times what 16 do."""
_MANY_SCORES = 4096
"""Scores from which that costs more than the four operations that avoid it."""


_MIN_BLOCK_QUERIES = 32
"""Queries that a block of a band has at least: products of fewer rows are not worth their calls."""
_MIN_BAND_KEYS, _MIN_BAND_GAIN = 256, 2
"""Keys from which a band may be worth its copies, and how many times fewer of them a query must then meet."""


def is_tracing() -> bool:
    """Whether the program is being written down, as an export does.

    Tensors have no values then that could be looked at, and their sizes stand for all others, so nothing may be chosen
    by either.
    """
    return torch.compiler.is_compiling()


def choose_block_size(queries: int, *, window: SlidingWindow) -> tuple[int, int]:
    """Queries and keys of a block of a band; at most half of its scores are hidden where windows are wide."""
    reach = window.before + window.after
    size = min(max(_MIN_BLOCK_QUERIES, 1 << max(reach - 1, 1).bit_length() - 1), queries)
    return size, size + reach


def prefer_band(queries: int, keys: int, *, window: SlidingWindow) -> bool:
    """Whether a window is computed block by block, not as a mask over all keys (docs/performance.md)."""
    if is_tracing():
        return False
    _, keys_per_block = choose_block_size(queries, window=window)
    return queries > 0 and keys >= max(_MIN_BAND_KEYS, _MIN_BAND_GAIN * keys_per_block)


def prefer_fused(query: Float[Tensor, "B H Q d_k"], key: Float[Tensor, "B H K d_k"], dropout: float) -> bool:
    """Whether torch's fused kernel is the faster one for these shapes on this device (docs/performance.md).

    On a CPU its dropout falls back to plain operations, which are slower than those here, and its gradient in bf16
    takes two to 16 times as long as theirs.
    """
    if query.device.type != "cpu" or is_tracing():
        return True
    if dropout > 0 or query.size(2) == 1:
        return False
    if needs_grad(query):
        return query.dtype != torch.bfloat16 or key.size(2) > _LONG_KEYS
    return key.size(2) >= _MIN_FUSED_KEYS


def needs_grad(query: Float[Tensor, "B H Q d_k"]) -> bool:
    """Whether a gradient will be asked for."""
    return torch.is_grad_enabled() and query.requires_grad


def fused_attention(
    query: Float[Tensor, "B H Q d_k"],
    key: Float[Tensor, "B H K d_k"],
    *,
    value: Float[Tensor, "B H K d_v"],
    visible: Bool[Tensor, "B 1 Q K"] | None,
    fully_masked: Bool[Tensor, "B 1 Q 1"] | None,
    dropout: float,
) -> Float[Tensor, "B H Q d_v"]:
    """softmax(q k / sqrt(d_k)) v in one kernel that never forms the weights."""
    if visible is not None and fully_masked is not None:
        visible = visible | fully_masked  # some kernels give NaN for a row that is masked entirely
    if visible is not None:
        visible = _deduplicate_mask(visible)
    context = functional.scaled_dot_product_attention(query, key, value, attn_mask=visible, dropout_p=dropout)
    return context if fully_masked is None else context.masked_fill(fully_masked, 0.0)


def explicit_attention(
    query: Float[Tensor, "B H Q d_k"],
    key: Float[Tensor, "B H K d_k"],
    *,
    value: Float[Tensor, "B H K d_v"],
    scale: float,
    hidden: Bool[Tensor, "B 1 Q K"] | None,
    fully_masked: Bool[Tensor, "B 1 Q 1"] | None,
    factors: Float[Tensor, "B H Q K"] | None,
) -> Float[Tensor, "B H Q d_v"]:
    """The same with weights that are formed, and multiplied by `factors` (dropout), in one node of the graph.

    Its gradient copies each of the three once and passes over the weights as often as it must; that of the single
    operations also masks the gradient of the scores, which is zero there already.
    """
    node = _ExplicitAttention.apply
    result: Tensor = node(query, key, value, scale, hidden, fully_masked, factors)  # type: ignore[no-untyped-call]  # torch's
    return result


class _ExplicitAttention(torch.autograd.Function):
    """Gradients of softmax(s q k) v: with g that of a context, dw = g v and ds = w (dw - sum(dw w))."""

    @staticmethod
    def forward(  # noqa: PLR0917 -- autograd passes by position
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float,
        hidden: Tensor | None,
        fully_masked: Tensor | None,
        factors: Tensor | None,
    ) -> Tensor:
        query, key, value = (heads.contiguous() for heads in (query, key, value))
        weights = masked_softmax(scaled_dot_products(query, key, scale=scale), hidden=hidden, fully_masked=fully_masked)
        ctx.save_for_backward(query, key, value, weights, factors)
        ctx.scale = scale
        return weighted_sum(_apply_factors(weights, factors), value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, factors = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        d_value = weighted_sum(_apply_factors(weights, factors).transpose(2, 3), gradient)
        d_kept = scaled_dot_products(gradient, value, scale=1.0)
        d_scores = _softmax_gradient(d_kept if factors is None else d_kept.mul_(factors), weights)
        d_query = scaled_dot_products(d_scores, key.transpose(2, 3), scale=ctx.scale)
        d_key = scaled_dot_products(d_scores.transpose(2, 3), query.transpose(2, 3), scale=ctx.scale)
        return d_query, d_key, d_value, None, None, None, None


def _apply_factors(weights: Tensor, factors: Tensor | None) -> Tensor:
    return weights if factors is None else weights * factors


def scaled_dot_products(
    query: Float[Tensor, "B H Q d_k"], key: Float[Tensor, "B H K d_k"], *, scale: float
) -> Float[Tensor, "B H Q K"]:
    """scale * q . k, scaled inside the product; torch's own matmul would pass over the result once more."""
    batch, heads, queries, _ = query.shape
    unused_input = query.new_empty(1)  # beta=0: it is not read
    keys = key.flatten(0, 1).transpose(1, 2)
    scores = torch.baddbmm(unused_input, query.flatten(0, 1), keys, beta=0, alpha=scale)
    return scores.view(batch, heads, queries, key.size(2))


def weighted_sum(weights: Float[Tensor, "B H Q K"], value: Float[Tensor, "B H K d_v"]) -> Float[Tensor, "B H Q d_v"]:
    """Each query's sum of values by its weights."""
    batch, heads, queries, _ = weights.shape
    context = torch.bmm(weights.flatten(0, 1), value.flatten(0, 1))
    return context.view(batch, heads, queries, value.size(3))


def masked_softmax(
    scores: Float[Tensor, "B H Q K"],
    *,
    hidden: Bool[Tensor, "B 1 Q K"] | None,
    fully_masked: Bool[Tensor, "B 1 Q 1"] | None,
) -> Float[Tensor, "B H Q K"]:
    """`heedful.attention.normalizers.softmax` for scores that may be overwritten."""
    if hidden is None:
        return _fast_softmax(scores)
    weights = _fast_softmax(_fill_hidden(scores, hidden))
    return weights if fully_masked is None else weights.masked_fill(fully_masked, 0.0)


def _fill_hidden(scores: Tensor, hidden: Tensor) -> Tensor:
    """The lowest number where something is hidden, in place."""
    lowest = torch.finfo(scores.dtype).min
    if is_tracing() or scores.numel() < _MANY_SCORES:
        return scores.masked_fill_(hidden, lowest)
    # a sum is vectorised, and beside the lowest number a score is nothing
    return scores.add_(_deduplicate_mask(hidden).to(scores.dtype).mul_(lowest))


def _deduplicate_mask(mask: Tensor) -> Tensor:
    """One row of a mask that is the same for all rows."""
    return mask[:1] if mask.stride(0) == 0 else mask


def _is_slow_softmax(scores: Tensor) -> bool:
    """Whether torch's softmax would leave its vectorised code, and that matters."""
    if is_tracing():
        return False
    short = scores.size(-1) < _SHORT_KEYS and scores.numel() >= _MANY_SCORES
    return short and scores.dtype == torch.float32 and scores.device.type == "cpu"


def _fast_softmax(scores: Tensor) -> Tensor:
    """Over the keys, by whichever way is faster."""
    if not _is_slow_softmax(scores):
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
    if not _is_slow_softmax(weights):
        # what autograd itself calls for a softmax; there is no public name for it
        return torch._softmax_backward_data(gradient, weights, -1, weights.dtype)
    product = gradient * weights
    result: Tensor = product.addcmul_(weights, product.sum(-1, keepdim=True), value=-1)
    return result
