"""A penalty on heads that look at the same things."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor


def decorrelation_penalty(weights: Iterable[Float[Tensor, "B H Q K"]]) -> Float[Tensor, ""]:
    """Sum over attentions and queries of |A A^T - I|^2 (Frobenius), where row j of A is head j's weights.

    Off the diagonal it pushes heads apart, on the diagonal it makes each look at few keys (Lin et al. 2017, eq. 8,
    there for the hops of a sentence embedding; the lecture asks it of multi-head attention). Queries that see
    nothing, as padding does, count as nothing.
    """
    penalties = []
    for call_weights in weights:
        heads = call_weights.transpose(1, 2)
        gram = heads @ heads.transpose(-2, -1)
        identity = torch.eye(gram.size(-1), dtype=gram.dtype, device=gram.device)
        is_real = (heads.sum((-2, -1)) > 0).to(gram.dtype)
        penalties.append(((gram - identity).square().sum((-2, -1)) * is_real).sum())
    assert penalties, "decorrelation needs attention weights"
    return torch.stack([p.float() for p in penalties]).sum()
