"""Samplers that choose the next token from the logits, and filters that forbid tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from heedful.errors import RecipeError
from heedful.generation.results import upcast_logits
from heedful.generation.topk import BLOCK_SIZE, top_k

_FIRST_GUESS = 256


@runtime_checkable
class LogitsFilter(Protocol):
    """Function that forbids tokens: it sets their logits to minus infinity and leaves the others unchanged."""

    def __call__(self, logits: Float[Tensor, "N V"], lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """Return the filtered logits, possibly in place.

        `lengths` counts the new tokens of each row, its forced prefix included.
        """
        ...


@final
@dataclass(frozen=True)
class SuppressTokens:
    """Filter that always forbids the tokens `ids`, such as padding, begin of sentence and unknown words."""

    ids: tuple[int, ...]

    def __call__(self, logits: Float[Tensor, "N V"], _lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """Set the logits of the suppressed tokens to minus infinity, in place."""
        return logits.index_fill_(1, _ids_tensor(self.ids, logits.device), -math.inf)


@final
@dataclass(frozen=True)
class MinimumLength:
    """Filter that forbids `eos` before a row has `min_tokens` tokens, its forced prefix included and `eos` not."""

    min_tokens: int
    eos: int

    def __call__(self, logits: Float[Tensor, "N V"], lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """Forbid `eos` in the rows that are too short, in place."""
        logits[:, self.eos].masked_fill_(lengths < self.min_tokens, -math.inf)
        return logits


@final
@dataclass(frozen=True)
class TopKFilter:
    """Filter that keeps the `k` most probable tokens (Fan et al. 2018); among equal ones those with smaller ids."""

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise RecipeError(f"top-k: {self.k} tokens; must be at least 1")

    def __call__(self, logits: Float[Tensor, "N V"], _lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """Return a copy of the logits with all but the top k set to minus infinity."""
        top = top_k(logits, min(self.k, logits.size(1)))
        return torch.full_like(logits, -math.inf).scatter_(1, top.ids, top.values)


@final
@dataclass(frozen=True)
class TopPFilter:
    """Filter that keeps the fewest most probable tokens with a joint probability of `p` (Holtzman et al. 2020)."""

    p: float

    def __post_init__(self) -> None:
        if not 0 < self.p <= 1:
            raise RecipeError(f"top-p: {self.p}; must be above 0 and at most 1")

    def __call__(self, logits: Float[Tensor, "N V"], _lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """Return a copy of the logits with all tokens at minus infinity except the fewest most probable ones that
        together have probability `p`; return the logits themselves if `p` is 1.
        """
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
    """Filter that keeps tokens at least `p` times as probable as the most probable one (Nguyen et al. 2024)."""

    p: float

    def __post_init__(self) -> None:
        if not 0 < self.p <= 1:
            raise RecipeError(f"min-p: {self.p}; must be above 0 and at most 1")

    def __call__(self, logits: Float[Tensor, "N V"], _lengths: Int[Tensor, " N"], /) -> Float[Tensor, "N V"]:
        """Set the logits of the less probable tokens to minus infinity, in place."""
        floor = logits.amax(1, keepdim=True) + math.log(self.p)
        return logits.masked_fill_(logits < floor, -math.inf)


def apply_filters(
    logits: Float[Tensor, "N V"], lengths: Int[Tensor, " N"], *, filters: Iterable[LogitsFilter]
) -> Float[Tensor, "N V"]:
    """Apply all filters to the logits in order; may overwrite `logits`. `lengths` counts the new tokens of each row."""
    for logits_filter in filters:
        logits = logits_filter(logits, lengths)
    return logits


def collect_suppressed_ids(filters: Sequence[LogitsFilter]) -> Int[Tensor, " n"] | None:
    """Return all tokens that filters suppress; None if a filter does anything else."""
    suppressing = [item for item in filters if isinstance(item, SuppressTokens)]
    if len(suppressing) < len(filters):
        return None
    return torch.tensor(sorted({token_id for item in suppressing for token_id in item.ids}), dtype=torch.long)


@lru_cache(maxsize=64)
def _ids_tensor(ids: tuple[int, ...], device: torch.device) -> Int[Tensor, " n"]:
    """Return the ids as a cached tensor on the device."""
    with torch.inference_mode(False):  # it is kept, and a later call may record gradients
        return torch.tensor(ids, dtype=torch.long, device=device)


@dataclass(frozen=True)
class SamplerContext:
    """What a sampler knows of each row.

    Attributes:
        lengths: number of new tokens so far, the forced prefix included.
        rng_streams: number of the random stream of each row.
    """

    lengths: Int[Tensor, " N"]
    rng_streams: Int[Tensor, " N"]


@runtime_checkable
class Sampler(Protocol):
    """Function that chooses one token for each row."""

    def __call__(self, logits: Float[Tensor, "N V"], context: SamplerContext) -> Int[Tensor, " N"]:
        """Return the chosen ids, -1 where no token is possible; may overwrite `logits`."""
        ...


@final
@dataclass(frozen=True)
class GreedySampler:
    """Sampler that takes the most probable token, among equal ones that with the smallest id."""

    filters: tuple[LogitsFilter, ...] = ()

    def __call__(self, logits: Float[Tensor, "N V"], context: SamplerContext) -> Int[Tensor, " N"]:
        """Return the id with the largest filtered logit of each row, or -1."""
        top = top_k(upcast_logits(apply_filters(logits, context.lengths, filters=self.filters)), 1)
        possible = top.values > -math.inf  # false for not a number, too
        return torch.where(possible, top.ids, -1).squeeze(1)


@final
@dataclass(frozen=True)
class MultinomialSampler:
    """Sampler that draws a token with its probability, after the temperature and then the filters.

    What a row draws depends only on `seed`, the random stream of the row and its length. So it depends neither on other
    rows nor on the batch size, and the same call gives the same tokens.
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
        """Draw one id for each row by inverting the distribution function, first over blocks of columns, then within a
        block. Return -1 where no token is possible.
        """
        logits = upcast_logits(logits)
        scaled = logits if self.temperature == 1 else logits / self.temperature
        scaled = apply_filters(scaled, context.lengths, filters=self.filters)
        padded = functional.pad(scaled.softmax(1), (0, -scaled.size(1) % BLOCK_SIZE))
        blocks = padded.view(len(padded), -1, BLOCK_SIZE)
        block_draws, offset_draws = draw_uniform(self.seed, context, count=2)
        block = _sample_from_cdf(blocks.sum(2), block_draws)
        rows = torch.arange(len(block), device=block.device)
        offset = _sample_from_cdf(blocks[rows, block], offset_draws)
        return torch.where((block < 0) | (offset < 0), -1, block * BLOCK_SIZE + offset)


def draw_uniform(seed: int, context: SamplerContext, *, count: int) -> Float[Tensor, "count N"]:
    """Return `count` pseudorandom numbers in [0, 1) for each row, which are 1 or 2. They depend only on `seed`, and on
    the random stream and length of the row.

    Counters are hashed with SplitMix64 (Steele et al. 2014). A random generator would make rows depend on the rows
    before them.
    """
    draws = torch.arange(count, device=context.lengths.device).unsqueeze(1)
    state = _splitmix64(context.rng_streams + _hash_seed(seed, context.rng_streams.device))
    state = _splitmix64(state + 2 * context.lengths + draws)
    return _shift_right(state, 16).double() * 2.0**-48


@lru_cache(maxsize=64)
def _hash_seed(seed: int, device: torch.device) -> Int[Tensor, ""]:
    """Return the hash of a seed as a cached tensor on the device."""
    with torch.inference_mode(False):  # see `_ids_tensor`
        return _splitmix64(torch.tensor(seed, device=device))


def _splitmix64(numbers: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Hash each 64-bit integer with SplitMix64, a permutation that looks random."""
    numbers = numbers + (0x9E3779B97F4A7C15 - 2**64)
    numbers = (numbers ^ _shift_right(numbers, 30)) * (0xBF58476D1CE4E5B9 - 2**64)
    numbers = (numbers ^ _shift_right(numbers, 27)) * (0x94D049BB133111EB - 2**64)
    return numbers.bitwise_xor(_shift_right(numbers, 31))


def _shift_right(numbers: Int[Tensor, "*shape"], bits: int) -> Int[Tensor, "*shape"]:
    """Shift integers to the right as if they were unsigned."""
    return (numbers >> bits).bitwise_and(2 ** (64 - bits) - 1)


def _sample_from_cdf(weights: Float[Tensor, "N K"], uniforms: Float[Tensor, " N"]) -> Int[Tensor, " N"]:
    """Return in each row the first column where the cumulative weights exceed the share `uniforms` of their sum, or -1
    if there is none; its weight is not 0.
    """
    sums = torch.where(weights > 0, weights.double().cumsum(1), 0.0)
    passed = sums > uniforms.unsqueeze(1) * sums.amax(1, keepdim=True)
    return torch.where(passed.any(1), passed.byte().argmax(1), -1)
