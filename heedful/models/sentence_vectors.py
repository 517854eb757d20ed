"""Texts as vectors the way that models of sentence-transformers make them: tokens are pooled, then mapped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.blocks.recurrent import CellState
from heedful.models.encoders import Pooler, mean_pool

PoolingMode: TypeAlias = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
"""What is made of the hidden vectors: of the first token; the largest number of each dimension; the mean; the sum over
the root of how many there are; the mean in which token t of 1, 2 ... counts t times (Muennighoff 2022); of the last
token."""
POOLING_MODES: Final[Sequence[PoolingMode]] = (
    "cls",
    "max",
    "mean",
    "mean_sqrt_len_tokens",
    "weightedmean",
    "lasttoken",
)
"""In the order in which several are put side by side."""


@final
class MultiModePooler(Pooler):
    """One vector of the hidden vectors of all tokens, special ones too; of several modes one behind the other.

    Args:
        modes: at least one; their order here does not matter.
    """

    def __init__(self, modes: Iterable[PoolingMode]) -> None:
        super().__init__()
        chosen = {*modes}
        assert chosen, "a text becomes a vector in some way"
        self.modes = tuple(mode for mode in POOLING_MODES if mode in chosen)

    def extra_repr(self) -> str:
        """What `print` says of it besides its parts."""
        return f"modes={', '.join(self.modes)}"

    def forward(
        self,
        hidden: Float[Tensor, "B T d_model"],
        positions: Int[Tensor, "B T"],
        final_states: tuple[CellState, ...] = (),
    ) -> Float[Tensor, "B d_pooled"]:
        """Of a text without tokens zeros."""
        return torch.cat([_pool(mode, hidden, positions) for mode in self.modes], 1)


def _pool(
    mode: PoolingMode, hidden: Float[Tensor, "B T d_model"], positions: Int[Tensor, "B T"]
) -> Float[Tensor, "B d_model"]:
    token_mask = (positions >= 0).unsqueeze(-1)
    rows = torch.arange(len(hidden), device=hidden.device)
    pooled: Tensor
    match mode:
        case "cls":
            pooled = hidden[rows, (positions == 0).byte().argmax(1)] * token_mask.any(1)
        case "lasttoken":
            pooled = hidden[rows, positions.argmax(1)] * token_mask.any(1)
        case "max":
            pooled = hidden.masked_fill(~token_mask, -torch.inf).amax(1).nan_to_num(neginf=0.0)
        case "mean":
            pooled = mean_pool(hidden, positions)
        case "mean_sqrt_len_tokens":
            pooled = (hidden * token_mask).sum(1) / token_mask.sum(1).clamp(min=1).sqrt()
        case "weightedmean":
            weights = (positions + 1).unsqueeze(-1).to(hidden.dtype)
            pooled = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)
    return pooled


@final
class UnitNorm(nn.Module):
    """x / |x|; a vector of zeros stays one."""

    def forward(self, x: Float[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        """Vectors of length 1."""
        return functional.normalize(x, dim=-1)


@final
class SentencePooler(Pooler):
    """What is pooled, and then goes through further maps.

    Args:
        pooling: of the hidden vectors.
        steps: maps of the pooled vector, one behind the other.
    """

    def __init__(self, pooling: MultiModePooler, steps: Sequence[nn.Module]) -> None:
        super().__init__()
        self.pooling = pooling
        self.steps = nn.Sequential(*steps)

    def forward(
        self,
        hidden: Float[Tensor, "B T d_model"],
        positions: Int[Tensor, "B T"],
        final_states: tuple[CellState, ...] = (),
    ) -> Float[Tensor, "B d_vector"]:
        """The vector of each text."""
        vectors: Tensor = self.steps(self.pooling(hidden, positions))
        return vectors
