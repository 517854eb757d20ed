"""Choice of the fastest attention kernel, based on measurements; the result never changes."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from heedful.attention.mask_functions import SlidingWindow
from heedful.fused_operators import native_attention, prefer_native_attention

_MIN_FUSED_KEYS = 64
"""Number of keys from which torch's fused kernel is faster on a CPU without gradients."""
_LONG_KEYS = 2048
"""Number of keys up to which explicit products train faster in bf16 on a CPU; weights of more keys need much memory."""
_SHORT_KEYS = 16
"""Number of keys below which torch's fp32 softmax on a CPU leaves its vectorised code: 15 keys cost 15 times as much as
16."""
_MANY_SCORES = 4096
"""Number of scores from which that costs more than the four operations that avoid it."""


_MIN_BLOCK_QUERIES = 32
"""Minimum number of queries in a block of a band: products of fewer rows are not worth the overhead."""
_MIN_BAND_KEYS, _MIN_BAND_GAIN = 256, 2
"""Required ratio of all keys to the keys per block of a band."""


def is_tracing() -> bool:
    """Return whether torch is tracing or compiling, as an export does.

    Tensors have no concrete values then, and their sizes are symbolic, so no decision may depend on either.
    """
    return torch.compiler.is_compiling()


def choose_block_size(queries: int, *, window: SlidingWindow) -> tuple[int, int]:
    """Return the number of queries and keys of a block, for `queries` queries that see a sliding window of keys.

    At most half of the scores are hidden where windows are wide.
    """
    reach = window.before + window.after
    size = min(max(_MIN_BLOCK_QUERIES, 1 << max(reach - 1, 1).bit_length() - 1), queries)
    return size, size + reach


def prefer_band(queries: int, keys: int, *, window: SlidingWindow) -> bool:
    """Return whether a window over this number of queries and keys is faster block by block than as a mask over all
    keys (docs/performance.md).
    """
    if is_tracing():
        return False
    _, keys_per_block = choose_block_size(queries, window=window)
    return queries > 0 and keys >= max(_MIN_BAND_KEYS, _MIN_BAND_GAIN * keys_per_block)


def prefer_fused(query: Float[Tensor, "B H Q d_k"], key: Float[Tensor, "B H_kv K d_k"], dropout: float) -> bool:
    """Return whether torch's fused kernel is faster for queries and keys of these shapes on this device, with this
    probability of dropout (docs/performance.md).

    On a CPU its dropout falls back to plain operations, which are slower than those here, and its gradient in bf16
    takes two to 16 times as long as theirs.
    """
    if query.device.type != "cpu":
        return True
    if is_tracing():
        return not needs_grad(query) or (dropout == 0 and query.dtype != torch.bfloat16)
    if prefer_native_attention(query, key):
        return False
    if dropout > 0 or query.size(2) == 1:
        return False
    if needs_grad(query):
        return query.dtype != torch.bfloat16 or key.size(2) > _LONG_KEYS
    return key.size(2) >= _MIN_FUSED_KEYS


def needs_grad(query: Float[Tensor, "B H Q d_k"]) -> bool:
    """Return whether a gradient will be needed."""
    return torch.is_grad_enabled() and query.requires_grad


def fused_attention(
    query: Float[Tensor, "B H Q d_k"],
    key: Float[Tensor, "B H K d_k"],
    *,
    value: Float[Tensor, "B H K d_v"],
    scale: float | None = None,
    visible: Bool[Tensor, "B 1 Q K"] | None,
    fully_masked: Bool[Tensor, "B 1 Q 1"] | None,
    dropout: float,
) -> Float[Tensor, "B H Q d_v"]:
    """Compute softmax(scale q k) v in one kernel that never forms the weights. `visible` says which keys a query sees,
    None for all; queries in `fully_masked` see none and get zeros. `dropout` is a probability, `scale` 1 / sqrt(d_k) if
    not given.
    """
    if visible is not None and fully_masked is not None:
        visible = visible | fully_masked  # some kernels give NaN for a row that is masked entirely
    if visible is not None:
        visible = _deduplicate_mask(visible)
    context = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=visible, dropout_p=dropout, scale=scale
    )
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
    """Compute softmax(scale q k) v with explicit weights, multiplied by `factors` (dropout), in one autograd node.
    `hidden` says which keys a query does not see; queries in `fully_masked` see none and get zeros.

    Its gradient copies each input once and passes over the weights as often as necessary; that of the single operations
    would also mask the gradient of the scores, which is zero there already.
    """
    if prefer_native_attention(query, key):
        return native_attention(query, key, value=value, scale=scale, hidden=hidden, factors=factors)
    node = _ExplicitAttention.apply
    result: Tensor = node(query, key, value, scale, hidden, fully_masked, factors)  # type: ignore[no-untyped-call]  # torch's
    return result


class _ExplicitAttention(torch.autograd.Function):
    """Autograd function softmax(s q k) v: with g the gradient of a context, dw = g v and ds = w (dw - sum(dw w))."""

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
        """Return the contexts, and store in `ctx` what the gradient needs; see `explicit_attention`."""
        query, key, value = (heads.contiguous() for heads in (query, key, value))
        weights = masked_softmax(scaled_dot_products(query, key, scale=scale), hidden=hidden, fully_masked=fully_masked)
        ctx.save_for_backward(query, key, value, weights, factors)
        ctx.scale = scale
        return weighted_sum(_apply_gelus(weights, factors), value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of query, key and value from that of the contexts; the other arguments have none."""
        query, key, value, weights, factors = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        d_value = weighted_sum(_apply_gelus(weights, factors).transpose(2, 3), gradient)
        d_kept = scaled_dot_products(gradient, value, scale=1.0)
        d_scores = _softmax_gradient(d_kept if factors is None else d_kept.mul_(factors), weights)
        d_query = scaled_dot_products(d_scores, key.transpose(2, 3), scale=ctx.scale)
        d_key = scaled_dot_products(d_scores.transpose(2, 3), query.transpose(2, 3), scale=ctx.scale)
        return d_query, d_key, d_value, None, None, None, None


def _apply_gelus(weights: Tensor, factors: Tensor | None) -> Tensor:
    """Multiply weights by dropout factors, if there are any."""
    return weights if factors is None else weights * factors


def scaled_dot_products(
    query: Float[Tensor, "B H Q d_k"], key: Float[Tensor, "B H_kv K d_k"], *, scale: float
) -> Float[Tensor, "B H Q K"]:
    """Compute scale * q . k for each query and key, with the scale inside the product; torch's own matmul would pass
    over the result once more. Neighbouring heads of queries share a head of keys where there are fewer of these.
    """
    batch, heads, queries, _ = query.shape
    unused_input = query.new_empty(1)  # beta=0: it is not read
    keys = key.flatten(0, 1).transpose(1, 2)
    scores = torch.baddbmm(unused_input, _group_heads(query, key), keys, beta=0, alpha=scale)
    return scores.view(batch, heads, queries, key.size(2))


def weighted_sum(weights: Float[Tensor, "B H Q K"], value: Float[Tensor, "B H_kv K d_v"]) -> Float[Tensor, "B H Q d_v"]:
    """Sum the values with each query's weights; see `scaled_dot_products` for fewer heads of values."""
    batch, heads, queries, _ = weights.shape
    context = torch.bmm(_group_heads(weights, value), value.flatten(0, 1))
    return context.view(batch, heads, queries, value.size(3))


def _group_heads(x: Tensor, shared: Tensor) -> Float[Tensor, "groups rows d"]:
    """Put the rows of all heads of `x` that share a head of keys or values below each other."""
    rows = x.size(1) // shared.size(1) * x.size(2)
    return x.reshape(x.size(0) * shared.size(1), rows, x.size(3))


def repeat_heads(shared: Float[Tensor, "B H_kv K d"], heads: int) -> Float[Tensor, "B H K d"]:
    """Repeat each head of keys or values, so that there are `heads` of them; neighbours are equal."""
    return shared if shared.size(1) == heads else shared.repeat_interleave(heads // shared.size(1), 1)


def masked_softmax(
    scores: Float[Tensor, "B H Q K"],
    *,
    hidden: Bool[Tensor, "B 1 Q K"] | None,
    fully_masked: Bool[Tensor, "B 1 Q 1"] | None,
) -> Float[Tensor, "B H Q K"]:
    """Compute the softmax of scores over the keys that are not hidden; the scores may be overwritten. Queries in
    `fully_masked` see no key and get zeros.
    """
    if hidden is None:
        return _fast_softmax(scores)
    weights = _fast_softmax(_fill_hidden(scores, hidden))
    return weights if fully_masked is None else weights.masked_fill(fully_masked, 0.0)


def _fill_hidden(scores: Tensor, hidden: Tensor) -> Tensor:
    """Set the scores of hidden keys to the lowest number, in place."""
    lowest = torch.finfo(scores.dtype).min
    if is_tracing() or scores.numel() < _MANY_SCORES:
        return scores.masked_fill_(hidden, lowest)
    # a sum is vectorised, and next to the lowest number a score is negligible
    return scores.add_(_deduplicate_mask(hidden).to(scores.dtype).mul_(lowest))


def _deduplicate_mask(mask: Tensor) -> Tensor:
    """Return a single row of a mask that is the same for all rows."""
    return mask[:1] if mask.stride(0) == 0 else mask


def _is_slow_softmax(scores: Tensor) -> bool:
    """Return whether torch's softmax would leave its vectorised code for these scores."""
    if is_tracing():
        return False
    short = scores.size(-1) < _SHORT_KEYS and scores.numel() >= _MANY_SCORES
    return short and scores.dtype == torch.float32 and scores.device.type == "cpu"


def _fast_softmax(scores: Tensor) -> Tensor:
    """Compute the softmax of scores over the keys in the faster of two ways."""
    if not _is_slow_softmax(scores):
        return scores.softmax(-1)
    if not (torch.is_grad_enabled() and scores.requires_grad):
        return _short_softmax(scores)
    result: Tensor = _ShortSoftmax.apply(scores)  # type: ignore[no-untyped-call]  # torch's
    return result


def _short_softmax(scores: Tensor) -> Tensor:
    """Compute the softmax over few keys with element-wise operations."""
    exponent = torch.sub(scores, scores.amax(-1, keepdim=True)).exp_()
    return exponent.div_(exponent.sum(-1, keepdim=True))


class _ShortSoftmax(torch.autograd.Function):
    """Autograd function for the softmax over few keys; its gradient is w (g - sum(g w))."""

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
    """Compute the gradient of the scores from the softmax weights w and their gradient g, w (g - sum(g w)), in the
    faster of two ways.
    """
    if not _is_slow_softmax(weights):
        # autograd itself calls this for a softmax; it has no public name
        return torch._softmax_backward_data(gradient, weights, -1, weights.dtype)
    product = gradient * weights
    result: Tensor = product.addcmul_(weights, product.sum(-1, keepdim=True), value=-1)
    return result
