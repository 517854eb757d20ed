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

_STEP: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB
_WORD: Final = 2**64 - 1
_FEW: Final = 16
_STREAM: Final = 0x64726177
"""Keeps the numbers of `Drawn` apart from others that a seed decides."""


@final
class Chance:
    """A stream of random numbers decided by `numbers`, none negative, alone.

    It is SplitMix64 (Steele et al. 2014), because numpy's generators take longer to be made than most examples need
    numbers, and what they give may change.
    """

    def __init__(self, *numbers: int) -> None:
        self._state = 0
        for number in numbers:
            self._state = _mixed((self._state + number + _STEP) & _WORD)

    def uniform(self, count: int) -> Float[np.ndarray, " count"]:
        """The next numbers in [0, 1)."""
        if count <= _FEW:
            return np.array([self.number() for _ in range(count)])
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_STEP) + np.uint64(self._state)
        self._state = (self._state + count * _STEP) & _WORD
        z = (steps ^ (steps >> np.uint64(30))) * np.uint64(_FIRST)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(_SECOND)
        z ^= z >> np.uint64(31)
        return (z >> np.uint64(11)) * 2.0**-53

    def number(self) -> float:
        """The next one in [0, 1)."""
        self._state = (self._state + _STEP) & _WORD
        return (_mixed(self._state) >> 11) * 2.0**-53

    def below(self, limit: int) -> int:
        """The next whole number from 0 up to `limit`, which it does not reach; the bias is below limit / 2^53."""
        return int(self.number() * limit)


def _mixed(z: int) -> int:
    z = ((z ^ (z >> 30)) * _FIRST) & _WORD
    z = ((z ^ (z >> 27)) * _SECOND) & _WORD
    return z ^ (z >> 31)


@final
@dataclass(frozen=True, eq=False)
class Drawn(Generic[T]):
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
        chosen = self._chosen
        return (example for example, mine in zip(self.examples, chosen, strict=True) if mine)

    @cached_property
    def _chosen(self) -> Bool[np.ndarray, " N"]:
        total = sum(1 for _ in self.examples)
        require_enough(self.count, total)
        chosen = np.zeros(total, dtype=bool)
        chosen[np.argsort(Chance(self.seed, _STREAM).uniform(total), kind="stable")[: self.count]] = True
        return chosen


def require_enough(count: int, total: int) -> None:
    """`RecipeError` where more examples are asked for than there are."""
    if count > total:
        raise RecipeError(
            f"data.examples = {count}: there are only {total} to learn from; set at most that, or leave data.examples "
            "away to take all"
        )
