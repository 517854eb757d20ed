"""Random numbers that depend only on a few integers, so that an example is the same in every process and at any time.

`Subsample` uses them to draw a part of the training examples, so that learning from few examples can be compared with
learning from many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Generic, TypeVar, final

import numpy as np
from jaxtyping import Bool, Float

from heedful.errors import RecipeError

T = TypeVar("T")

_GOLDEN_GAMMA: Final = 0x9E3779B97F4A7C15
_MULTIPLIER_1: Final = 0xBF58476D1CE4E5B9
_MULTIPLIER_2: Final = 0x94D049BB133111EB
_MASK_64: Final = 2**64 - 1
_MAX_SCALAR_DRAWS: Final = 16
_SUBSAMPLE_STREAM: Final = 0x64726177
"""Separates the random numbers of `Subsample` from other streams of the same seed."""


@final
class SeededRandom:
    """A stream of random numbers that depends only on the given non-negative `seeds`.

    It is SplitMix64 (Steele et al. 2014), because numpy's generators take longer to create than most examples need for
    their few numbers, and their output may change between versions.
    """

    def __init__(self, *seeds: int) -> None:
        self._state = 0
        for seed in seeds:
            self._state = _mix_bits((self._state + seed + _GOLDEN_GAMMA) & _MASK_64)

    def uniform(self, count: int) -> Float[np.ndarray, " count"]:
        """Return the next `count` floats in [0, 1)."""
        if count <= _MAX_SCALAR_DRAWS:
            return np.array([self.next_float() for _ in range(count)])
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN_GAMMA) + np.uint64(self._state)
        self._state = (self._state + count * _GOLDEN_GAMMA) & _MASK_64
        z = (steps ^ (steps >> np.uint64(30))) * np.uint64(_MULTIPLIER_1)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(_MULTIPLIER_2)
        z ^= z >> np.uint64(31)
        return (z >> np.uint64(11)) * 2.0**-53

    def next_float(self) -> float:
        """Return the next float in [0, 1)."""
        self._state = (self._state + _GOLDEN_GAMMA) & _MASK_64
        return (_mix_bits(self._state) >> 11) * 2.0**-53

    def next_int(self, limit: int) -> int:
        """Return the next integer from 0 to `limit` - 1; the bias is below limit / 2^53."""
        return int(self.next_float() * limit)


def _mix_bits(z: int) -> int:
    """Apply the output function of SplitMix64 to a 64-bit state."""
    z = ((z ^ (z >> 30)) * _MULTIPLIER_1) & _MASK_64
    z = ((z ^ (z >> 27)) * _MULTIPLIER_2) & _MASK_64
    return z ^ (z >> 31)


@final
@dataclass(frozen=True, eq=False)
class Subsample(Generic[T]):
    """A random sample of `count` examples without replacement, in their original order.

    Each example gets a random number from the seed, and the examples with the smallest numbers are kept. So for one
    seed, a smaller sample is a subset of a larger one.

    Attributes:
        examples: an iterable that can be read repeatedly, each time from the start.
        count: number of examples to keep.
        seed: seed of the sample.
    """

    examples: Iterable[T]
    count: int
    seed: int

    def __iter__(self) -> Iterator[T]:
        """Iterate over the sampled examples; raise `RecipeError` if there are fewer than `count`."""
        selected = self._selection_mask
        return (example for example, is_selected in zip(self.examples, selected, strict=True) if is_selected)

    @cached_property
    def _selection_mask(self) -> Bool[np.ndarray, " N"]:
        """For each example, whether it is in the sample."""
        total = sum(1 for _ in self.examples)
        require_enough_examples(self.count, total)
        mask = np.zeros(total, dtype=bool)
        mask[np.argsort(SeededRandom(self.seed, _SUBSAMPLE_STREAM).uniform(total), kind="stable")[: self.count]] = True
        return mask


def require_enough_examples(count: int, total: int) -> None:
    """Raise `RecipeError` if `count` is larger than `total`."""
    if count > total:
        raise RecipeError(
            f"data.examples = {count}: there are only {total} to learn from; set at most that, or remove data.examples "
            "to take all"
        )
