"""Some of many examples, so that what is learned from few can be compared with what is learned from many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, Generic, TypeVar, final

import numpy as np
from jaxtyping import Bool

from heedful.data.chance import Chance
from heedful.errors import RecipeError

T = TypeVar("T")

_STREAM: Final = 0x64726177
"""Keeps these numbers apart from others that a seed decides."""


@final
class Drawn(Generic[T]):
    """`count` examples drawn without replacement, in the order in which they stand.

    Each example gets a random number that the seed decides, and those with the smallest are taken. So of one seed the
    examples of a smaller draw are among those of a larger one.

    Args:
        examples: to be read as often as one likes, each time from the start.
        count: how many.
        seed: of the draw.
    """

    def __init__(self, examples: Iterable[T], *, count: int, seed: int) -> None:
        self._examples = examples
        self._count = count
        self._seed = seed

    def __iter__(self) -> Iterator[T]:
        """`RecipeError` where there are not as many."""
        chosen = self._chosen
        return (example for example, mine in zip(self._examples, chosen, strict=True) if mine)

    @cached_property
    def _chosen(self) -> Bool[np.ndarray, " N"]:
        total = sum(1 for _ in self._examples)
        require_enough(self._count, total)
        chosen = np.zeros(total, dtype=bool)
        chosen[np.argsort(Chance(self._seed, _STREAM).uniform(total), kind="stable")[: self._count]] = True
        return chosen


def require_enough(count: int, total: int) -> None:
    """`RecipeError` where more examples are asked for than there are."""
    if count > total:
        raise RecipeError(
            f"data.examples = {count}: there are only {total} to learn from; set at most that, or leave data.examples "
            "away to take all"
        )
