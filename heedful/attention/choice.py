"""From scores to weights: how a query divides its attention among the keys it sees."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Choice = Callable[[Float[Tensor, "*B Q K"], Bool[Tensor, "*B Q K"]], Float[Tensor, "*B Q K"]]


def softmax(scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"]) -> Float[Tensor, "*B Q K"]:
    """Weights over what is visible; a query that sees nothing gets zeros, not NaN."""
    floor = torch.finfo(scores.dtype).min
    return torch.where(visible, scores, floor).softmax(-1) * visible


def proportional(scores: Float[Tensor, "*B Q K"], visible: Bool[Tensor, "*#B Q K"]) -> Float[Tensor, "*B Q K"]:
    """The lecture's norm p / sum(p): weights in proportion to the scores themselves.

    Only meaningful for scores that cannot be negative (exp of a dot product, say): with signed scores the sum can
    vanish and the weights leave [0, 1]. A query that sees nothing gets zeros.
    """
    seen = torch.where(visible, scores, 0.0)
    total = seen.sum(-1, keepdim=True)
    return torch.where(total == 0, 0.0, seen / torch.where(total == 0, 1.0, total))
