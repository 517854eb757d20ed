"""What makes a token less probable because it was there before."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.models.interface import State
from heedful.values import Tokens


@runtime_checkable
class Penalty(Protocol):
    """Changes logits in the light of the tokens so far; what it remembers goes in and comes out.

    A state is batch-first like every other, so `select` serves finished rows and beams. Penalties come before the
    temperature and before all filters, which need no history and pay for none.
    """

    def begin(self, read: Tokens, /, *, vocabulary: int) -> State:
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
        spared: tokens that are never changed, as the one that ends a document and also stands before it.
    """

    theta: float
    spared: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (self.theta > 0 and math.isfinite(self.theta)):
            raise RecipeError(f"repetition penalty: {self.theta}; must be above 0, and 1 changes nothing")

    def begin(self, read: Tokens, /, *, vocabulary: int) -> Bool[Tensor, "N V"]:
        """Which tokens each row has seen."""
        seen = torch.zeros(len(read.ids), vocabulary + 1, dtype=torch.bool, device=read.ids.device)
        seen.scatter_(1, torch.where(read.positions >= 0, read.ids, vocabulary), True)
        return self._without_spared(seen[:, :vocabulary])

    def __call__(self, logits: Float[Tensor, "N V"], state: Bool[Tensor, "N V"], /) -> Float[Tensor, "N V"]:
        """In a copy."""
        changed = torch.where(logits > 0, logits / self.theta, logits * self.theta)
        return torch.where(state, changed, logits)

    def extend(self, state: Bool[Tensor, "N V"], ids: Int[Tensor, " N"], /) -> Bool[Tensor, "N V"]:
        """With these tokens seen, too."""
        return self._without_spared(state.scatter(1, ids.unsqueeze(1), True))

    def _without_spared(self, seen: Bool[Tensor, "N V"]) -> Bool[Tensor, "N V"]:
        for number in self.spared:
            seen[:, number] = False
        return seen
