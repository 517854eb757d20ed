"""Which tokens may not come next."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.errors import RecipeError
from heedful.generation.ranking import top_k

_FIRST_GUESS = 256


@runtime_checkable
class Filter(Protocol):
    """Forbids tokens: sets their logits to minus infinity, in place or not, and leaves the others alone."""

    def __call__(self, logits: Float[Tensor, "N V"], lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """The filtered logits; `lengths` counts the new tokens of each row, its forced prefix included."""
        ...


@final
@dataclass(frozen=True)
class Forbid:
    """These tokens never come: padding, begin of sentence, unknown words."""

    ids: tuple[int, ...]

    def __call__(self, logits: Float[Tensor, "N V"], _lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """In place."""
        return logits.index_fill_(1, _index(self.ids, logits.device), -math.inf)


@final
@dataclass(frozen=True)
class MinimumLength:
    """Ends no sentence before it has `tokens` tokens, its forced prefix included and `eos` not."""

    tokens: int
    eos: int

    def __call__(self, logits: Float[Tensor, "N V"], lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """In place."""
        logits[:, self.eos].masked_fill_(lengths < self.tokens, -math.inf)
        return logits


@final
@dataclass(frozen=True)
class TopK:
    """Only the `k` most probable tokens, Fan et al. 2018; of equal ones those with the smaller ids."""

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise RecipeError(f"top-k: {self.k} tokens; must be at least 1")

    def __call__(self, logits: Float[Tensor, "N V"], _lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """In a copy."""
        best = top_k(logits, min(self.k, logits.size(1)))
        return torch.full_like(logits, -math.inf).scatter_(1, best.ids, best.values)


@final
@dataclass(frozen=True)
class TopP:
    """Only the fewest most probable tokens that together have probability `p`, Holtzman et al. 2020."""

    p: float

    def __post_init__(self) -> None:
        if not 0 < self.p <= 1:
            raise RecipeError(f"top-p: {self.p}; must be above 0 and at most 1")

    def __call__(self, logits: Float[Tensor, "N V"], _lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """In a copy, unless `p` is 1."""
        if self.p == 1:
            return logits
        total = logits.logsumexp(1, keepdim=True)
        best = top_k(logits, min(_FIRST_GUESS, logits.size(1)))
        mass = (best.values - total).double().exp().cumsum(1)
        if bool(
            (mass[:, -1] < self.p).any()
        ):  # sorting a whole vocabulary takes ten times as long and is rarely needed
            best = top_k(logits, logits.size(1))
            mass = (best.values - total).double().exp().cumsum(1)
        needed = torch.nn.functional.pad(mass[:, :-1] < self.p, (1, 0), value=True)
        kept = best.values.masked_fill(~needed, -math.inf)
        return torch.full_like(logits, -math.inf).scatter_(1, best.ids, kept)


@final
@dataclass(frozen=True)
class MinP:
    """Only tokens at least `p` times as probable as the most probable one, Nguyen et al. 2024."""

    p: float

    def __post_init__(self) -> None:
        if not 0 < self.p <= 1:
            raise RecipeError(f"min-p: {self.p}; must be above 0 and at most 1")

    def __call__(self, logits: Float[Tensor, "N V"], _lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """In place."""
        floor = logits.amax(1, keepdim=True) + math.log(self.p)
        return logits.masked_fill_(logits < floor, -math.inf)


def filtered(
    logits: Float[Tensor, "N V"], lengths: Int[Tensor, " N"], *, filters: Iterable[Filter]
) -> Float[Tensor, "N V"]:
    """The logits after all filters in their order; may overwrite the given ones."""
    for one in filters:
        logits = one(logits, lengths)
    return logits


@lru_cache(maxsize=64)
def _index(ids: tuple[int, ...], device: torch.device) -> Int[Tensor, " n"]:
    with torch.inference_mode(False):  # it is kept, and may next be wanted where gradients are recorded
        return torch.tensor(ids, dtype=torch.long, device=device)
