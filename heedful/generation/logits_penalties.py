"""Frequency and presence penalties and logit bias, as the OpenAI API defines them."""

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
    """Penalty that subtracts `frequency` from a logit for each time the token was generated, and `presence` once.

    Prompt and forced prefix do not count; 0 changes nothing, and negative values encourage repetition.
    """

    presence: float = 0.0
    frequency: float = 0.0

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> Float[Tensor, "N V"]:
        """Return zero counts of every token for each row."""
        return torch.zeros(len(tokens.ids), vocab_size, device=tokens.ids.device)

    def __call__(self, logits: Float[Tensor, "N V"], state: Float[Tensor, "N V"], /) -> Float[Tensor, "N V"]:
        """Return a copy of the logits with the penalties subtracted."""
        return logits - self.frequency * state - self.presence * (state > 0)

    def extend(self, state: Float[Tensor, "N V"], ids: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """Count the new tokens."""
        return state.scatter_add(1, ids.unsqueeze(1), torch.ones_like(state[:, :1]))


@final
@dataclass(frozen=True)
class LogitBias:
    """Logits processor that adds a fixed number to the logits of some tokens.

    Attributes:
        ids: the tokens, each once.
        values: what is added to each.
    """

    ids: tuple[int, ...]
    values: tuple[float, ...]

    def init_state(self, _read: Tokens, /, *, vocab_size: int) -> None:
        """Check the ids; this processor has no state."""
        assert all(0 <= token_id < vocab_size for token_id in self.ids), "each id is one of the vocabulary"

    def __call__(self, logits: Float[Tensor, "N V"], _state: None, /) -> Float[Tensor, "N V"]:
        """Return a copy of the logits with the bias added."""
        bias = torch.tensor(self.values, dtype=logits.dtype, device=logits.device)
        columns = torch.tensor(self.ids, device=logits.device)
        return logits.index_add(1, columns, bias.expand(len(logits), -1))

    def extend(self, _state: None, _ids: Int[Tensor, " N"], /) -> None:
        """Return None: this processor has no state."""
