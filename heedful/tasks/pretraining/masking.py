"""Hiding tokens, so that a model can be asked for them (Devlin et al. 2019, 3.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

import numpy as np
from jaxtyping import Bool, Int

from heedful.data.random_numbers import SeededRandom

_LONGEST_SPAN = 10
_SPAN_END_PROBABILITY = 0.2
_SPAN_PROBABILITY_MASS = 1 - (1 - _SPAN_END_PROBABILITY) ** _LONGEST_SPAN


class MaskingStrategy(ABC):
    """Chooses the tokens that a model must predict.

    Args:
        share: of all tokens, in the mean.
    """

    def __init__(self, share: float) -> None:
        self.share = share

    @final
    def choose_tokens(self, continues: Bool[np.ndarray, " T"], rng: SeededRandom) -> Bool[np.ndarray, " T"]:
        """Which of the tokens of a text; `continues` says of each whether it goes on with the word before it.

        The number is share * T rounded up or down at random, so that the share is right in the mean, whatever T is;
        where tokens are chosen by groups, the last group may be chosen in part or left out to keep to it.
        """
        count = int(self.share * len(continues) + rng.next_float())
        return self._choose_count(continues, count, rng)

    @abstractmethod
    def _choose_count(
        self, continues: Bool[np.ndarray, " T"], count: int, rng: SeededRandom
    ) -> Bool[np.ndarray, " T"]: ...


@final
class TokenMasking(MaskingStrategy):
    """Each token by itself (Devlin et al. 2019, A.1)."""

    def _choose_count(self, continues: Bool[np.ndarray, " T"], count: int, rng: SeededRandom) -> Bool[np.ndarray, " T"]:
        return _select_first(np.argsort(rng.uniform(len(continues)), kind="stable"), count, size=len(continues))


@final
class WholeWordMasking(MaskingStrategy):
    """All tokens of a word or none; the last word chosen is hidden in part where the share asks for fewer.

    BERT's later release chooses so, and skips words that are too long; here the share is kept exactly.
    """

    def _choose_count(self, continues: Bool[np.ndarray, " T"], count: int, rng: SeededRandom) -> Bool[np.ndarray, " T"]:
        words = np.cumsum(~continues)
        keys = rng.uniform(int(words[-1]) + 1 if len(words) else 0)
        return _select_first(np.argsort(keys[words], kind="stable"), count, size=len(continues))


@final
class SpanMasking(MaskingStrategy):
    """Stretches of neighbouring words (Joshi et al. 2020, 3.1).

    Their number of words is geometric with p = 0.2 among those up to 10, so that its mean is 3.8, as the paper says; to
    cut longer ones at 10 would make it 4.5.
    """

    def _choose_count(self, continues: Bool[np.ndarray, " T"], count: int, rng: SeededRandom) -> Bool[np.ndarray, " T"]:
        chosen = np.zeros(len(continues), dtype=bool)
        # a piece that continues a word from before the text is a word here
        word_starts = np.unique(np.concatenate(([0], np.flatnonzero(~continues), [len(continues)])))
        while chosen.sum() < count:
            length = 1 + int(np.log1p(-rng.next_float() * _SPAN_PROBABILITY_MASS) / np.log1p(-_SPAN_END_PROBABILITY))
            start_word = rng.next_int(len(word_starts) - 1)
            end_word = min(start_word + length, len(word_starts) - 1)
            span = np.arange(word_starts[start_word], word_starts[end_word])
            chosen[span[~chosen[span]][: count - int(chosen.sum())]] = True
        return chosen


def mask_tokens(
    ids: Int[np.ndarray, " T"],
    chosen: Bool[np.ndarray, " T"],
    *,
    mask: int,
    words: Int[np.ndarray, " W"],
    rng: SeededRandom,
) -> Int[np.ndarray, " T"]:
    """Return the ids; chosen ones become `mask` (80 %), a random one of `words` (10 %) or stay (10 %)."""
    action_draws, word_draws = rng.uniform(2 * len(ids)).reshape(2, -1)
    masked = np.where(chosen & (action_draws < 0.8), mask, ids)
    return np.where(chosen & (action_draws >= 0.9), words[(word_draws * len(words)).astype(np.int64)], masked)


def _select_first(order: Int[np.ndarray, " T"], count: int, *, size: int) -> Bool[np.ndarray, " T"]:
    chosen = np.zeros(size, dtype=bool)
    chosen[order[:count]] = True
    return chosen
