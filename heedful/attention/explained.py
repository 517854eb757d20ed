"""An attention, slowly: everything between its queries and its contexts."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Explained:
    """What an attention computes on its way; a single attention has one head.

    Attributes:
        query: as it is compared with keys.
        key: likewise, as the score projects it.
        value: what is summed.
        scale: what the plain score was multiplied by.
        bias: what relative positions add to the scaled score; None where they add nothing.
        scores: scaled and with their bias, of all keys, also of hidden ones.
        visible: who may see whom.
        weights: of the values.
        context: the weighted sums.
    """

    query: Float[Tensor, "B H Q d_k"]
    key: Float[Tensor, "B H K d_key"]
    value: Float[Tensor, "B H K d_v"]
    scale: float
    bias: Float[Tensor, "#B H Q K"] | None
    scores: Float[Tensor, "B H Q K"]
    visible: Bool[Tensor, "B Q K"]
    weights: Float[Tensor, "B H Q K"]
    context: Float[Tensor, "B H Q d_v"]
