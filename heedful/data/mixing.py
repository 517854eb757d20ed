"""Choose the examples of an epoch from several texts, with some texts over- or undersampled."""

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
"""Separates these random numbers from other streams of the same seed."""


@final
@dataclass(frozen=True, eq=False)
class CorpusMixture:
    """A mixture of several texts whose examples are stored one text after the other.

    An epoch has the wanted number of tokens of each text, up to rounding and to the lengths of the drawn examples. The
    examples of a text are used in passes, each pass in a new random order, and an epoch continues where the last one
    stopped; so no example is repeated before all have been used once. A text that is used completely in every epoch is
    included whole.

    Attributes:
        tokens: number of tokens of each example.
        counts: number of examples of each text.
        token_budgets: number of tokens of each text in an epoch, above 0.
        seed: seed of the random orders.
    """

    tokens: Integer[np.ndarray, " N"]
    counts: Sequence[int]
    token_budgets: Sequence[float]
    seed: int

    def __post_init__(self) -> None:
        assert len(self.counts) == len(self.token_budgets), "of each text there is some amount"
        assert sum(self.counts) == len(self.tokens), "each example is of one text"

    def sample_epoch(self, epoch: int) -> Int[np.ndarray, " rows"]:
        """Return the examples of an epoch, which depend on the seed and the epoch alone; an example may occur
        several times.
        """
        starts = [0, *accumulate(self.counts)][:-1]
        return np.concatenate([start + self._select_examples(text, epoch) for text, start in enumerate(starts)])

    @cached_property
    def examples_per_epoch(self) -> tuple[int, ...]:
        """Number of examples of each text in an epoch, at least one."""
        sums = sum_tokens_by_text(self.tokens, self.counts)
        return tuple(
            max(1, round(budget * count / tokens))
            for budget, count, tokens in zip(self.token_budgets, self.counts, sums, strict=True)
        )

    def _select_examples(self, text: int, epoch: int) -> Int[np.ndarray, " taken"]:
        """Return the examples of one text in an epoch, counted from 0 within the text."""
        count, num_selected = self.counts[text], self.examples_per_epoch[text]
        if num_selected == count:
            return np.arange(count)
        first, last = epoch * num_selected, (epoch + 1) * num_selected
        passes = [self._shuffle_pass(text, pass_number) for pass_number in range(first // count, -(-last // count))]
        offset = first // count * count
        return np.concatenate(passes)[first - offset : last - offset]

    def _shuffle_pass(self, text: int, pass_number: int) -> Int[np.ndarray, " count"]:
        """Return the examples of a text in the random order of one pass."""
        return np.argsort(
            SeededRandom(self.seed, _MIXING_STREAM, text, pass_number).uniform(self.counts[text]), kind="stable"
        )


def sum_tokens_by_text(tokens: Integer[np.ndarray, " N"], counts: Sequence[int]) -> list[int]:
    """Return the number of tokens of each text."""
    return [int(text_tokens.sum()) for text_tokens in np.split(tokens, list(accumulate(counts))[:-1])]
