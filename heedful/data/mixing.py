"""Which examples of several texts make an epoch, where some come more often or more seldom than there is of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final, final

import numpy as np
from jaxtyping import Int, Integer

from heedful.data.random_numbers import SeededRandom

_MIXING_STREAM: Final = 0x6D697865
"""Keeps these numbers apart from others that a seed decides."""


@final
@dataclass(frozen=True, eq=False)
class CorpusMixture:
    """Examples of several texts, which stand one text after the other.

    An epoch has as many tokens of each text as is asked for, up to rounding and to the lengths of those that are drawn.
    Each text goes through its examples in passes, every pass in an order of its own, and an epoch goes on where the
    last one stopped; so no example comes a second time before all have come once. A text of which an epoch has all
    is there as a whole each time.

    Attributes:
        tokens: of each example.
        counts: examples of each text.
        token_budgets: tokens of each text in an epoch, above 0.
        seed: of the orders.
    """

    tokens: Integer[np.ndarray, " N"]
    counts: Sequence[int]
    token_budgets: Sequence[float]
    seed: int

    def __post_init__(self) -> None:
        assert len(self.counts) == len(self.token_budgets), "of each text there is some amount"
        assert sum(self.counts) == len(self.tokens), "each example is of one text"

    def sample_epoch(self, epoch: int) -> Int[np.ndarray, " rows"]:
        """The examples of an epoch, a function of the seed and the epoch alone; one may come several times."""
        starts = [0, *accumulate(self.counts)][:-1]
        return np.concatenate([start + self._select_examples(text, epoch) for text, start in enumerate(starts)])

    @cached_property
    def examples_per_epoch(self) -> tuple[int, ...]:
        """How many examples an epoch has of each text; at least one."""
        sums = sum_tokens_by_text(self.tokens, self.counts)
        return tuple(
            max(1, round(budget * count / tokens))
            for budget, count, tokens in zip(self.token_budgets, self.counts, sums, strict=True)
        )

    def _select_examples(self, text: int, epoch: int) -> Int[np.ndarray, " taken"]:
        """The examples of one of the texts, counted from 0 in it."""
        count, num_selected = self.counts[text], self.examples_per_epoch[text]
        if num_selected == count:
            return np.arange(count)
        first, last = epoch * num_selected, (epoch + 1) * num_selected
        passes = [self._shuffle_pass(text, pass_number) for pass_number in range(first // count, -(-last // count))]
        offset = first // count * count
        return np.concatenate(passes)[first - offset : last - offset]

    def _shuffle_pass(self, text: int, pass_number: int) -> Int[np.ndarray, " count"]:
        """The examples of a text, from 0, in the order of one of its passes."""
        return np.argsort(
            SeededRandom(self.seed, _MIXING_STREAM, text, pass_number).uniform(self.counts[text]), kind="stable"
        )


def sum_tokens_by_text(tokens: Integer[np.ndarray, " N"], counts: Sequence[int]) -> list[int]:
    """The sum of the tokens of each text."""
    return [int(text_tokens.sum()) for text_tokens in np.split(tokens, list(accumulate(counts))[:-1])]
