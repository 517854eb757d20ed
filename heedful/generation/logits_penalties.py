"""Penalties as OpenAI's interface defines them: for what was written, and for tokens that are named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.tensors import Tokens


@final
@dataclass(frozen=True)
class CountPenalty:
    """Subtracts `frequency` from a token's logit for each time that it was written, and `presence` once.

    The prompt does not count, nor does a forced prefix; 0 changes nothing, and less than 0 favours repetition.
    """

    presence: float = 0.0
    frequency: float = 0.0

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> Float[Tensor, "N V"]:
        """How often each row has written each token: never."""
        return torch.zeros(len(tokens.ids), vocab_size, device=tokens.ids.device)

    def __call__(self, logits: Float[Tensor, "N V"], state: Float[Tensor, "N V"], /) -> Float[Tensor, "N V"]:
        """In a copy."""
        return logits - self.frequency * state - self.presence * (state > 0)

    def extend(self, state: Float[Tensor, "N V"], ids: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """With these tokens counted."""
        return state.scatter_add(1, ids.unsqueeze(1), torch.ones_like(state[:, :1]))


@final
@dataclass(frozen=True)
class LogitBias:
    """Adds a number of its own to the logit of each of some tokens.

    Attributes:
        ids: each once.
        values: what is added to each.
    """

    ids: tuple[int, ...]
    values: tuple[float, ...]

    def init_state(self, _read: Tokens, /, *, vocab_size: int) -> None:
        """Nothing is remembered."""
        assert all(0 <= token_id < vocab_size for token_id in self.ids), "each id is one of the vocabulary"

    def __call__(self, logits: Float[Tensor, "N V"], _state: None, /) -> Float[Tensor, "N V"]:
        """In a copy."""
        bias = torch.tensor(self.values, dtype=logits.dtype, device=logits.device)
        columns = torch.tensor(self.ids, device=logits.device)
        return logits.index_add(1, columns, bias.expand(len(logits), -1))

    def extend(self, _state: None, _ids: Int[Tensor, " N"], /) -> None:
        """Whatever was written."""
