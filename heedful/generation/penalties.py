"""How beam search compares hypotheses of different length, and what makes a token less probable that was there."""

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
    """What the log-probability of a hypothesis is divided by to become its score.

    A length counts every token that has a log-probability: the forced prefix and the end of sentence count,
    the prompt does not. The divisor must be positive and must either never fall or never rise with the
    length; the stopping rule of beam search relies on it.
    """

    @abstractmethod
    def compute_divisors(self, lengths: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The divisor at each of these lengths, all at least 1."""


@final
@dataclass(frozen=True)
class NoLengthPenalty(LengthPenalty):
    """Scores are log-probabilities, which favours short hypotheses."""

    def compute_divisors(self, lengths: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """1 at every length."""
        return torch.ones_like(lengths)


@final
@dataclass(frozen=True)
class AverageLength(LengthPenalty):
    """Scores are log-probabilities per token."""

    def compute_divisors(self, lengths: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The length itself."""
        return lengths


@dataclass(frozen=True)
class AlphaLengthPenalty(LengthPenalty):
    """A power of what the length makes, with the exponent `alpha`; abstract."""

    alpha: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.alpha):
            raise RecipeError(f"length penalty: alpha is {self.alpha}; must be a finite number")


@final
@dataclass(frozen=True)
class GNMTLengthPenalty(AlphaLengthPenalty):
    """((5 + length) / 6) ** alpha, Wu et al. 2016, equation 14; `alpha` 0 is no penalty, 0.6 is customary."""

    def compute_divisors(self, lengths: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """1 at length 1."""
        return ((5.0 + lengths) / 6.0) ** self.alpha


@final
@dataclass(frozen=True)
class PowerLengthPenalty(AlphaLengthPenalty):
    """length ** alpha: 0 is no penalty, 1 the average; what the transformers library means by its length_penalty."""

    def compute_divisors(self, lengths: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """1 at length 1."""
        return lengths**self.alpha


@runtime_checkable
class LogitsProcessor(Protocol):
    """Changes logits in the light of the tokens so far; what it remembers goes in and comes out.

    A state is batch-first like every other, so `select` serves finished rows and beams. Penalties come before the
    temperature and before all filters, which need no history and pay for none.
    """

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> State:
        """The state after the prompt and the forced prefix."""
        ...

    def __call__(self, logits: Float[Tensor, "N V"], state: State, /) -> Float[Tensor, "N V"]:
        """Other logits, in a copy."""
        ...

    def extend(self, state: State, ids: Int[Tensor, " N"], /) -> State:
        """The state after one more token of each row; the given one stays valid."""
        ...


@final
@dataclass(frozen=True)
class RepetitionPenalty:
    """Divides the logits of tokens that were there before by `theta`, or multiplies them where they are negative.

    Keskar et al. 2019 (CTRL), section 4.1, with the usual care for the sign; the prompt counts, and 1 changes nothing.

    Attributes:
        theta: above 1 against repetition, below 1 for it.
        exempt_ids: tokens that are never changed, as the one that ends a document and also stands before it.
    """

    theta: float
    exempt_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (self.theta > 0 and math.isfinite(self.theta)):
            raise RecipeError(f"repetition penalty: {self.theta}; must be above 0, and 1 changes nothing")

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> Bool[Tensor, "N V"]:
        """Which tokens each row has seen."""
        is_seen = torch.zeros(len(tokens.ids), vocab_size + 1, dtype=torch.bool, device=tokens.ids.device)
        is_seen.scatter_(1, torch.where(tokens.positions >= 0, tokens.ids, vocab_size), True)
        return self._clear_exempt_ids(is_seen[:, :vocab_size])

    def __call__(self, logits: Float[Tensor, "N V"], state: Bool[Tensor, "N V"], /) -> Float[Tensor, "N V"]:
        """In a copy."""
        changed = torch.where(logits > 0, logits / self.theta, logits * self.theta)
        return torch.where(state, changed, logits)

    def extend(self, state: Bool[Tensor, "N V"], ids: Int[Tensor, " N"], /) -> Bool[Tensor, "N V"]:
        """With these tokens seen, too."""
        return self._clear_exempt_ids(state.scatter(1, ids.unsqueeze(1), True))

    def _clear_exempt_ids(self, is_seen: Bool[Tensor, "N V"]) -> Bool[Tensor, "N V"]:
        for token_id in self.exempt_ids:
            is_seen[:, token_id] = False
        return is_seen
