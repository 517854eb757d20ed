"""Sentence embeddings as in sentence-transformers: pooling followed by further maps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.models.encoders import Pooler, mean_pool

PoolingMode: TypeAlias = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
"""Ways of pooling: the first token; the maximum of each dimension; the mean; the sum divided by the root of the number
of tokens; the mean in which token t of 1, 2 ... has weight t (Muennighoff 2022); the last token."""
POOLING_MODES: Final[Sequence[PoolingMode]] = (
    "cls",
    "max",
    "mean",
    "mean_sqrt_len_tokens",
    "weightedmean",
    "lasttoken",
)
"""All pooling modes, in the order in which their results are concatenated."""


@final
class MultiModePooler(Pooler):
    """Pools the hidden vectors of all tokens, including special ones, by one or several modes.

    Args:
        modes: at least one; the results are concatenated in the order of `POOLING_MODES`.
    """

    def __init__(self, modes: Iterable[PoolingMode]) -> None:
        super().__init__()
        chosen = {*modes}
        assert chosen, "a text becomes a vector in some way"
        self.modes = tuple(mode for mode in POOLING_MODES if mode in chosen)

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"modes={', '.join(self.modes)}"

    def forward(
        self, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B d_pooled"]:
        """Return the pooled vectors of all modes, concatenated; zeros for a text without tokens."""
        return torch.cat([_pool(mode, hidden, positions) for mode in self.modes], 1)


def _pool(
    mode: PoolingMode, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
) -> Float[Tensor, "B d_model"]:
    is_token = (positions >= 0).unsqueeze(-1)
    rows = torch.arange(len(hidden), device=hidden.device)
    pooled: Tensor
    match mode:
        case "cls":
            pooled = hidden[rows, (positions == 0).byte().argmax(1)] * is_token.any(1)
        case "lasttoken":
            pooled = hidden[rows, positions.argmax(1)] * is_token.any(1)
        case "max":
            pooled = hidden.masked_fill(~is_token, -torch.inf).amax(1).nan_to_num(neginf=0.0)
        case "mean":
            pooled = mean_pool(hidden, positions)
        case "mean_sqrt_len_tokens":
            pooled = (hidden * is_token).sum(1) / is_token.sum(1).clamp(min=1).sqrt()
        case "weightedmean":
            weights = (positions + 1).unsqueeze(-1).to(hidden.dtype)
            pooled = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)
    return pooled


@final
class UnitNorm(nn.Module):
    """Normalisation to length 1, x / |x|; a zero vector stays zero."""

    def forward(self, x: Float[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        """Return vectors of length 1."""
        return functional.normalize(x, dim=-1)


@final
class SentencePooler(Pooler):
    """Pooling followed by further maps.

    Args:
        pooling: pools the hidden vectors.
        steps: maps of the pooled vector, applied in order.
    """

    def __init__(self, pooling: MultiModePooler, steps: Sequence[nn.Module]) -> None:
        super().__init__()
        self.pooling = pooling
        self.steps = nn.Sequential(*steps)

    def forward(
        self, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B d_vector"]:
        """Return the vector of each text."""
        vectors: Tensor = self.steps(self.pooling(hidden, positions))
        return vectors
