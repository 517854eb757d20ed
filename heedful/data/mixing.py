"""Which examples of several texts make an epoch: all of the first, and of each other one a share that changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final, final

import numpy as np
from jaxtyping import Int, Integer

from heedful.data.chance import Chance

_STREAM: Final = 0x6D697865
"""Keeps these numbers apart from others that a seed decides."""


@final
@dataclass(frozen=True, eq=False)
class Mixture:
    """Examples of several texts, which stand one text after the other.

    With shares s_k of the texts behind the first, which has n_0 tokens, an epoch has n_0 s_k / (1 - sum s) tokens of
    text k, up to rounding and to the lengths of those that are drawn. Each of these goes through its examples in
    passes, every pass in an order of its own, and an epoch goes on where the last one stopped; so no example comes a
    second time before all have come once.

    Attributes:
        tokens: of each example.
        counts: examples of each text.
        shares: of the tokens of an epoch, of each text behind the first; above 0, and together below 1.
        seed: of the orders.
    """

    tokens: Integer[np.ndarray, " N"]
    counts: Sequence[int]
    shares: Sequence[float]
    seed: int

    def __post_init__(self) -> None:
        assert len(self.counts) == len(self.shares) + 1, "each text behind the first has a share"
        assert sum(self.counts) == len(self.tokens), "each example is of one text"

    def rows(self, epoch: int) -> Int[np.ndarray, " rows"]:
        """The examples of an epoch, a function of the seed and the epoch alone; those of a small text come often."""
        starts = list(accumulate(self.counts))
        drawn = [start + self._taken(number, epoch) for number, start in enumerate(starts[:-1], 1)]
        return np.concatenate([np.arange(self.counts[0]), *drawn])

    @cached_property
    def taken(self) -> tuple[int, ...]:
        """How many examples an epoch has of each text behind the first; at least one."""
        sums = [int(part.sum()) for part in np.split(self.tokens, list(accumulate(self.counts))[:-1])]
        whole = sums[0] / (1 - math.fsum(self.shares))
        return tuple(
            max(1, round(whole * share * count / tokens))
            for share, count, tokens in zip(self.shares, self.counts[1:], sums[1:], strict=True)
        )

    def _taken(self, number: int, epoch: int) -> Int[np.ndarray, " taken"]:
        """The examples of one of the texts behind the first, counted from 0 in it."""
        count, take = self.counts[number], self.taken[number - 1]
        first, last = epoch * take, (epoch + 1) * take
        passes = [self._order(number, each) for each in range(first // count, -(-last // count))]
        behind = first // count * count
        return np.concatenate(passes)[first - behind : last - behind]

    def _order(self, number: int, turn: int) -> Int[np.ndarray, " count"]:
        """The examples of a text, from 0, in the order of one of its passes."""
        return np.argsort(Chance(self.seed, _STREAM, number, turn).uniform(self.counts[number]), kind="stable")
