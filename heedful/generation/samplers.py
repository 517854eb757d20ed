"""How the next token is taken from the logits, and which tokens may not be."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.errors import RecipeError
from heedful.generation.scoring import upcast_logits
from heedful.generation.topk import BLOCK_SIZE, top_k

_FIRST_GUESS = 256


@runtime_checkable
class LogitsFilter(Protocol):
    """Forbids tokens: sets their logits to minus infinity, in place or not, and leaves the others alone."""

    def __call__(self, logits: Float[Tensor, "N V"], lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """The filtered logits; `lengths` counts the new tokens of each row, its forced prefix included."""
        ...


@final
@dataclass(frozen=True)
class SuppressTokens:
    """These tokens never come: padding, begin of sentence, unknown words."""

    ids: tuple[int, ...]

    def __call__(self, logits: Float[Tensor, "N V"], _lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """In place."""
        return logits.index_fill_(1, _ids_tensor(self.ids, logits.device), -math.inf)


@final
@dataclass(frozen=True)
class MinimumLength:
    """Ends no sentence before it has `min_tokens` tokens, its forced prefix included and `eos` not."""

    min_tokens: int
    eos: int

    def __call__(self, logits: Float[Tensor, "N V"], lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """In place."""
        logits[:, self.eos].masked_fill_(lengths < self.min_tokens, -math.inf)
        return logits


@final
@dataclass(frozen=True)
class TopKFilter:
    """Only the `k` most probable tokens, Fan et al. 2018; of equal ones those with the smaller ids."""

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise RecipeError(f"top-k: {self.k} tokens; must be at least 1")

    def __call__(self, logits: Float[Tensor, "N V"], _lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """In a copy."""
        top = top_k(logits, min(self.k, logits.size(1)))
        return torch.full_like(logits, -math.inf).scatter_(1, top.ids, top.values)


@final
@dataclass(frozen=True)
class TopPFilter:
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
        top = top_k(logits, min(_FIRST_GUESS, logits.size(1)))
        mass = (top.values - total).double().exp().cumsum(1)
        if bool((mass[:, -1] < self.p).any()):  # to sort a whole vocabulary takes ten times as long
            top = top_k(logits, logits.size(1))
            mass = (top.values - total).double().exp().cumsum(1)
        needed = functional.pad(mass[:, :-1] < self.p, (1, 0), value=True)
        kept_values = top.values.masked_fill(~needed, -math.inf)
        return torch.full_like(logits, -math.inf).scatter_(1, top.ids, kept_values)


@final
@dataclass(frozen=True)
class MinPFilter:
    """Only tokens at least `p` times as probable as the most probable one, Nguyen et al. 2024."""

    p: float

    def __post_init__(self) -> None:
        if not 0 < self.p <= 1:
            raise RecipeError(f"min-p: {self.p}; must be above 0 and at most 1")

    def __call__(self, logits: Float[Tensor, "N V"], _lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """In place."""
        floor = logits.amax(1, keepdim=True) + math.log(self.p)
        return logits.masked_fill_(logits < floor, -math.inf)


def apply_filters(
    logits: Float[Tensor, "N V"], lengths: Int[Tensor, " N"], *, filters: Iterable[LogitsFilter]
) -> Float[Tensor, "N V"]:
    """The logits after all filters in their order; may overwrite the given ones."""
    for logits_filter in filters:
        logits = logits_filter(logits, lengths)
    return logits


@lru_cache(maxsize=64)
def _ids_tensor(ids: tuple[int, ...], device: torch.device) -> Int[Tensor, " n"]:
    with torch.inference_mode(False):  # it is kept, and may next be wanted where gradients are recorded
        return torch.tensor(ids, dtype=torch.long, device=device)


@dataclass(frozen=True)
class SamplerContext:
    """How far each row is.

    Attributes:
        lengths: new tokens so far, the forced prefix included.
        rng_streams: the number of each row's own source of chance.
    """

    lengths: Int[Tensor, " N"]
    rng_streams: Int[Tensor, " N"]


@runtime_checkable
class Sampler(Protocol):
    """Takes one token for each row."""

    def __call__(self, logits: Float[Tensor, "N V"], context: SamplerContext) -> Int[Tensor, " N"]:
        """The ids taken, -1 where none is possible; may overwrite the logits of tokens that it leaves."""
        ...


@final
@dataclass(frozen=True)
class GreedySampler:
    """The most probable token, of equal ones that with the smallest id."""

    filters: tuple[LogitsFilter, ...] = ()

    def __call__(self, logits: Float[Tensor, "N V"], context: SamplerContext) -> Int[Tensor, " N"]:
        """Greedy."""
        top = top_k(upcast_logits(apply_filters(logits, context.lengths, filters=self.filters)), 1)
        possible = top.values > -math.inf  # false for not a number, too
        return torch.where(possible, top.ids, -1).squeeze(1)


@final
@dataclass(frozen=True)
class MultinomialSampler:
    """A token drawn with its probability, after the temperature and then the filters.

    What a row draws is a function of `seed`, the row's stream and its length only, so it depends neither on
    its neighbours nor on the size of the batch, and the same call gives the same tokens.
    """

    temperature: float = 1.0
    filters: tuple[LogitsFilter, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if not -(2**63) <= self.seed < 2**63:
            raise RecipeError(f"seed: {self.seed}; must fit into 64 bits")
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise RecipeError(f"temperature: {self.temperature}; must be above 0, and greedy search is its limit at 0")

    def __call__(self, logits: Float[Tensor, "N V"], context: SamplerContext) -> Int[Tensor, " N"]:
        """By inverting the distribution function, first over blocks of columns and then inside the block."""
        logits = upcast_logits(logits)
        scaled = logits if self.temperature == 1 else logits / self.temperature
        scaled = apply_filters(scaled, context.lengths, filters=self.filters)
        padded = functional.pad(scaled.softmax(1), (0, -scaled.size(1) % BLOCK_SIZE))
        blocks = padded.view(len(padded), -1, BLOCK_SIZE)
        block = _sample_from_cdf(blocks.sum(2), draw_uniform(self.seed, context, draw=0))
        rows = torch.arange(len(block), device=block.device)
        offset = _sample_from_cdf(blocks[rows, block], draw_uniform(self.seed, context, draw=1))
        return torch.where((block < 0) | (offset < 0), -1, block * BLOCK_SIZE + offset)


def draw_uniform(seed: int, context: SamplerContext, *, draw: int) -> Float[Tensor, " N"]:
    """A number in [0, 1) for each row that depends on the arguments alone.

    Counters hashed by SplitMix64, Steele et al. 2014; a generator would make rows depend on the rows before them.
    """
    state = _splitmix64(context.rng_streams + _splitmix64(torch.full_like(context.rng_streams, seed)))
    state = _splitmix64(state + 2 * context.lengths + draw)
    return _shift_right(state, 16).double() * 2.0**-48


def _splitmix64(numbers: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
    """A permutation of the 64-bit integers that looks like chance."""
    numbers = numbers + (0x9E3779B97F4A7C15 - 2**64)
    numbers = (numbers ^ _shift_right(numbers, 30)) * (0xBF58476D1CE4E5B9 - 2**64)
    numbers = (numbers ^ _shift_right(numbers, 27)) * (0x94D049BB133111EB - 2**64)
    return numbers.bitwise_xor(_shift_right(numbers, 31))


def _shift_right(numbers: Int[Tensor, " N"], bits: int) -> Int[Tensor, " N"]:
    """Shifted to the right as if they had no sign."""
    return (numbers >> bits).bitwise_and(2 ** (64 - bits) - 1)


def _sample_from_cdf(weights: Float[Tensor, "N K"], uniforms: Float[Tensor, " N"]) -> Int[Tensor, " N"]:
    """The column where the running sum of the weights passes that part of it, or -1; its weight is not 0."""
    sums = torch.where(weights > 0, weights.double().cumsum(1), 0.0)
    passed = sums > uniforms.unsqueeze(1) * sums.amax(1, keepdim=True)
    return torch.where(passed.any(1), passed.byte().argmax(1), -1)
