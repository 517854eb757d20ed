"""Length penalties of beam search, the protocol of logits processors, and penalties and biases of logits."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.models.interface import State
from heedful.tensors import Tokens


class LengthPenalty(ABC):
    """Divisor that turns the log-probability of a hypothesis into its score; abstract.

    A length counts every token that has a log-probability: the forced prefix and the end of sentence count, the prompt
    does not. The divisor must be positive and monotone in the length, either way; the stopping rule of beam search
    relies on it.
    """

    @abstractmethod
    def compute_divisors(self, lengths: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the divisor for each length; all lengths are at least 1."""


@final
@dataclass(frozen=True)
class NoLengthPenalty(LengthPenalty):
    """No length penalty: scores are log-probabilities, which favours short hypotheses."""

    def compute_divisors(self, lengths: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return 1 for every length."""
        return torch.ones_like(lengths)


@final
@dataclass(frozen=True)
class AverageLength(LengthPenalty):
    """Length penalty that divides by the length: scores are log-probabilities per token."""

    def compute_divisors(self, lengths: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the lengths."""
        return lengths


@dataclass(frozen=True)
class AlphaLengthPenalty(LengthPenalty):
    """Abstract base of length penalties that raise a function of the length to the power of `alpha`."""

    alpha: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.alpha):
            raise RecipeError(f"length penalty: alpha is {self.alpha}; must be a finite number")


@final
@dataclass(frozen=True)
class GNMTLengthPenalty(AlphaLengthPenalty):
    """((5 + length) / 6) ** alpha (Wu et al. 2016, equation 14); `alpha` 0 is no penalty, 0.6 is customary."""

    def compute_divisors(self, lengths: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return ((5 + length) / 6) ** alpha."""
        return ((5.0 + lengths) / 6.0) ** self.alpha


@final
@dataclass(frozen=True)
class PowerLengthPenalty(AlphaLengthPenalty):
    """length ** alpha, the `length_penalty` of the transformers library: 0 is no penalty, 1 the average."""

    def compute_divisors(self, lengths: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return length ** alpha."""
        return lengths**self.alpha


@runtime_checkable
class LogitsProcessor(Protocol):
    """Function that changes logits depending on the tokens so far; its state is passed in and returned.

    States are batch-first, so `select_rows` can reorder them. Penalties are applied before the temperature and before
    all filters, which need no state.
    """

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> State:
        """Return the state after the prompt and the forced prefix."""
        ...

    def __call__(self, logits: Float[Tensor, "N V"], state: State, /) -> Float[Tensor, "N V"]:
        """Return the changed logits as a new tensor."""
        ...

    def extend(self, state: State, ids: Int[Tensor, " N"], /) -> State:
        """Return the state after one more token of each row; the given state stays valid."""
        ...


@final
@dataclass(frozen=True)
class RepetitionPenalty:
    """Penalty that divides positive logits of earlier tokens by `theta` and multiplies negative ones by it.

    Keskar et al. 2019 (CTRL), section 4.1, with the usual treatment of the sign. Tokens of the prompt count; 1 changes
    nothing.

    Attributes:
        theta: above 1 discourages repetition, below 1 encourages it.
        exempt_ids: tokens that are never changed, such as one that both begins and ends a document.
    """

    theta: float
    exempt_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (self.theta > 0 and math.isfinite(self.theta)):
            raise RecipeError(f"repetition penalty: {self.theta}; must be above 0, and 1 changes nothing")

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> Bool[Tensor, "N V"]:
        """Return a mask of the tokens that each row has read."""
        is_seen = torch.zeros(len(tokens.ids), vocab_size + 1, dtype=torch.bool, device=tokens.ids.device)
        is_seen.scatter_(1, torch.where(tokens.positions >= 0, tokens.ids, vocab_size), True)
        return self._clear_exempt_ids(is_seen[:, :vocab_size])

    def __call__(self, logits: Float[Tensor, "N V"], state: Bool[Tensor, "N V"], /) -> Float[Tensor, "N V"]:
        """Return a copy of the logits with those of earlier tokens changed."""
        changed = torch.where(logits > 0, logits / self.theta, logits * self.theta)
        return torch.where(state, changed, logits)

    def extend(self, state: Bool[Tensor, "N V"], ids: Int[Tensor, " N"], /) -> Bool[Tensor, "N V"]:
        """Add the new tokens to the mask."""
        return self._clear_exempt_ids(state.scatter(1, ids.unsqueeze(1), True))

    def _clear_exempt_ids(self, is_seen: Bool[Tensor, "N V"]) -> Bool[Tensor, "N V"]:
        """Remove the exempt tokens from the mask."""
        for token_id in self.exempt_ids:
            is_seen[:, token_id] = False
        return is_seen


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
