"""Hiding tokens, so that a model can be asked for them (Devlin et al. 2019, 3.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

import numpy as np
from jaxtyping import Bool, Int

from heedful.data.chance import Chance

_LONGEST_SPAN = 10
_SPAN_END = 0.2
_UP_TO_LONGEST = 1 - (1 - _SPAN_END) ** _LONGEST_SPAN


class Masking(ABC):
    """Chooses the tokens that a model is asked for.

    Args:
        share: of all tokens, in the mean.
    """

    def __init__(self, share: float) -> None:
        self.share = share

    @final
    def choose(self, continues: Bool[np.ndarray, " T"], chance: Chance) -> Bool[np.ndarray, " T"]:
        """Which of the tokens of a text; `continues` says of each whether it goes on with the word before it.

        The number is share * T rounded up or down at random, so that the share is right in the mean, whatever T is;
        where tokens are chosen by groups, the last group may be chosen in part or left out to keep to it.
        """
        wanted = int(self.share * len(continues) + chance.number())
        return self._choose(continues, wanted, chance)

    @abstractmethod
    def _choose(self, continues: Bool[np.ndarray, " T"], wanted: int, chance: Chance) -> Bool[np.ndarray, " T"]: ...


@final
class SingleTokens(Masking):
    """Each token by itself (Devlin et al. 2019, A.1)."""

    def _choose(self, continues: Bool[np.ndarray, " T"], wanted: int, chance: Chance) -> Bool[np.ndarray, " T"]:
        return _first(np.argsort(chance.uniform(len(continues)), kind="stable"), wanted, size=len(continues))


@final
class WholeWords(Masking):
    """All tokens of a word or none; the last word chosen is hidden in part where the share asks for fewer.

    BERT's later release chooses so, and skips words that are too long; here the share is kept exactly.
    """

    def _choose(self, continues: Bool[np.ndarray, " T"], wanted: int, chance: Chance) -> Bool[np.ndarray, " T"]:
        words = np.cumsum(~continues)
        keys = chance.uniform(int(words[-1]) + 1 if len(words) else 0)
        return _first(np.argsort(keys[words], kind="stable"), wanted, size=len(continues))


@final
class Spans(Masking):
    """Stretches of neighbouring words (Joshi et al. 2020, 3.1).

    Their number of words is geometric with p = 0.2 among those up to 10, so that its mean is 3.8, as the paper says; to
    cut longer ones at 10 would make it 4.5.
    """

    def _choose(self, continues: Bool[np.ndarray, " T"], wanted: int, chance: Chance) -> Bool[np.ndarray, " T"]:
        chosen = np.zeros(len(continues), dtype=bool)
        # what goes on with a word that stands before the text is a word here
        begins = np.unique(np.concatenate(([0], np.flatnonzero(~continues), [len(continues)])))
        while chosen.sum() < wanted:
            length = 1 + int(np.log1p(-chance.number() * _UP_TO_LONGEST) / np.log1p(-_SPAN_END))
            word = chance.below(len(begins) - 1)
            last = min(word + length, len(begins) - 1)
            span = np.arange(begins[word], begins[last])
            chosen[span[~chosen[span]][: wanted - int(chosen.sum())]] = True
        return chosen


def hide(
    ids: Int[np.ndarray, " T"],
    chosen: Bool[np.ndarray, " T"],
    *,
    mask: int,
    words: Int[np.ndarray, " W"],
    chance: Chance,
) -> Int[np.ndarray, " T"]:
    """The ids with those chosen replaced: by `mask` in 80 %, by any of `words` in 10 %, by themselves in 10 %."""
    dice, drawn = chance.uniform(2 * len(ids)).reshape(2, -1)
    hidden = np.where(chosen & (dice < 0.8), mask, ids)
    return np.where(chosen & (dice >= 0.9), words[(drawn * len(words)).astype(np.int64)], hidden)


def _first(order: Int[np.ndarray, " T"], wanted: int, *, size: int) -> Bool[np.ndarray, " T"]:
    chosen = np.zeros(size, dtype=bool)
    chosen[order[:wanted]] = True
    return chosen
