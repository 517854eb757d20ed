"""Which kernel computes attention: a measured choice, made here alone, that never changes the result."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

_FUSED_FROM = 512
"""Keys from which torch's fused kernel wins on a CPU; below, explicit products train up to 15 times faster."""


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


def masked_softmax(
    scores: Float[Tensor, "B H Q K"],
    *,
    visible: Bool[Tensor, "B 1 Q K"] | None,
    blind: Bool[Tensor, "B 1 Q 1"] | None,
) -> Float[Tensor, "B H Q K"]:
    """`heedful.attention.choice.softmax` for scores that may be overwritten."""
    if visible is None:
        return scores.softmax(-1)
    weights = scores.masked_fill_(~visible, torch.finfo(scores.dtype).min).softmax(-1)
    return weights if blind is None else weights.masked_fill(blind, 0.0)
