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

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> Int[Tensor, "N L"]:
        """Return the tokens that each row has read; -1 for none."""
        return self.mask_exempt_ids(torch.where(tokens.positions >= 0, tokens.ids, -1))

    def __call__(self, logits: Float[Tensor, "N V"], state: Int[Tensor, "N L"], /) -> Float[Tensor, "N V"]:
        """Return a copy of the logits with those of earlier tokens changed."""
        columns = state.clamp(min=0)
        earlier = logits.gather(1, columns)
        changed = torch.where(earlier > 0, earlier / self.theta, earlier * self.theta)
        reduce, unchanged = ("amin", math.inf) if self.theta >= 1 else ("amax", -math.inf)
        return logits.scatter_reduce(1, columns, changed.masked_fill_(state < 0, unchanged), reduce)

    def extend(self, state: Int[Tensor, "N L"], ids: Int[Tensor, " N"], /) -> Int[Tensor, "N l"]:
        """Append the new token of each row."""
        return torch.cat((state, self.mask_exempt_ids(ids.unsqueeze(1))), 1)

    def mask_exempt_ids(self, ids: Int[Tensor, "N L"]) -> Int[Tensor, "N L"]:
        """Return the ids with -1 in place of each exempt one."""
        for token_id in self.exempt_ids:
            ids = ids.masked_fill(ids == token_id, -1)
        return ids


@final
@dataclass(frozen=True)
class GeneratedTokens:
    """State of `CountPenalty`: the tokens that each row has generated, without its prompt and forced prefix.

    Attributes:
        ids: the tokens in order.
        is_first: whether a token occurs for the first time in its row.
    """

    ids: Int[Tensor, "N L"]
    is_first: Bool[Tensor, "N L"]


@final
@dataclass(frozen=True)
class CountPenalty:
    """Penalty that subtracts `frequency` from a logit for each time the token was generated, and `presence` once.

    Prompt and forced prefix do not count; 0 changes nothing, and negative values encourage repetition.
    """

    presence: float = 0.0
    frequency: float = 0.0

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> GeneratedTokens:
        """Return no tokens for each row."""
        ids = tokens.ids.new_empty(len(tokens.ids), 0)
        return GeneratedTokens(ids, ids.bool())

    def __call__(self, logits: Float[Tensor, "N V"], state: GeneratedTokens, /) -> Float[Tensor, "N V"]:
        """Return a copy of the logits with the penalties subtracted."""
        penalties = self.frequency + self.presence * state.is_first.to(logits.dtype)
        return logits.scatter_add(1, state.ids, -penalties)

    def extend(self, state: GeneratedTokens, ids: Int[Tensor, " N"], /) -> GeneratedTokens:
        """Append the new token of each row."""
        ids = ids.unsqueeze(1)
        is_first = (state.ids != ids).all(1, keepdim=True)
        return GeneratedTokens(torch.cat((state.ids, ids), 1), torch.cat((state.is_first, is_first), 1))


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
