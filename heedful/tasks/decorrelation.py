"""A loss term that penalises similar attention heads."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor


def decorrelation_penalty(weights: Iterable[Float[Tensor, "B H Q K"]]) -> Float[Tensor, ""]:
    """Sum |A A^T - I|^2 (Frobenius) over attention calls and queries, where row j of A is head j's weights.

    Off the diagonal it pushes heads apart, on the diagonal it makes each head attend to few keys (Lin et al. 2017, eq.
    8, there for the hops of a sentence embedding; here for multi-head attention). Queries without visible keys, such as
    padding, do not count.
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
