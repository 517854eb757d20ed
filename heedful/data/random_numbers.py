"""Random numbers that are a function of a few numbers, so that an example is the same whoever makes it, and when.

With them some of many examples are drawn, so that what is learned from few can be compared with what many teach.
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
"""Keeps the numbers of `Subsample` apart from others that a seed decides."""


@final
class SeededRandom:
    """A stream of random numbers decided by `seeds`, none negative, alone.

    It is SplitMix64 (Steele et al. 2014), because numpy's generators take longer to be made than most examples need
    numbers, and what they give may change.
    """

    def __init__(self, *seeds: int) -> None:
        self._state = 0
        for seed in seeds:
            self._state = _mix_bits((self._state + seed + _GOLDEN_GAMMA) & _MASK_64)

    def uniform(self, count: int) -> Float[np.ndarray, " count"]:
        """The next numbers in [0, 1)."""
        if count <= _MAX_SCALAR_DRAWS:
            return np.array([self.next_float() for _ in range(count)])
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN_GAMMA) + np.uint64(self._state)
        self._state = (self._state + count * _GOLDEN_GAMMA) & _MASK_64
        z = (steps ^ (steps >> np.uint64(30))) * np.uint64(_MULTIPLIER_1)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(_MULTIPLIER_2)
        z ^= z >> np.uint64(31)
        return (z >> np.uint64(11)) * 2.0**-53

    def next_float(self) -> float:
        """The next one in [0, 1)."""
        self._state = (self._state + _GOLDEN_GAMMA) & _MASK_64
        return (_mix_bits(self._state) >> 11) * 2.0**-53

    def next_int(self, limit: int) -> int:
        """The next whole number from 0 up to `limit`, which it does not reach; the bias is below limit / 2^53."""
        return int(self.next_float() * limit)


def _mix_bits(z: int) -> int:
    z = ((z ^ (z >> 30)) * _MULTIPLIER_1) & _MASK_64
    z = ((z ^ (z >> 27)) * _MULTIPLIER_2) & _MASK_64
    return z ^ (z >> 31)


@final
@dataclass(frozen=True, eq=False)
class Subsample(Generic[T]):
    """`count` examples drawn without replacement, in the order in which they stand.

    Each example gets a random number that the seed decides, and those with the smallest are taken. So of one seed the
    examples of a smaller draw are among those of a larger one.

    Attributes:
        examples: to be read as often as one likes, each time from the start.
        count: how many.
        seed: of the draw.
    """

    examples: Iterable[T]
    count: int
    seed: int

    def __iter__(self) -> Iterator[T]:
        """`RecipeError` where there are not as many."""
        selected = self._selection_mask
        return (example for example, is_selected in zip(self.examples, selected, strict=True) if is_selected)

    @cached_property
    def _selection_mask(self) -> Bool[np.ndarray, " N"]:
        total = sum(1 for _ in self.examples)
        require_enough_examples(self.count, total)
        mask = np.zeros(total, dtype=bool)
        mask[np.argsort(SeededRandom(self.seed, _SUBSAMPLE_STREAM).uniform(total), kind="stable")[: self.count]] = True
        return mask


def require_enough_examples(count: int, total: int) -> None:
    """`RecipeError` where more examples are asked for than there are."""
    if count > total:
        raise RecipeError(
            f"data.examples = {count}: there are only {total} to learn from; set at most that, or leave data.examples "
            "away to take all"
        )
