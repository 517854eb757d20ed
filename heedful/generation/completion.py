"""How a text goes on whose last word was begun: its tokens must write the characters that were given."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.models.interface import State
from heedful.values import Tokens

_IMPOSSIBLE: Final = 2**30
_BEYOND: Final = chr(0x10FFFF)


@final
@dataclass(frozen=True)
class PartialWord:
    """Characters that the next tokens of a text must write first, whatever these tokens add behind them.

    Attributes:
        characters: as the surfaces of tokens spell them, the space before a word included.
        tokens: at most so many tokens write them.
        may_end: whether the text may end instead.
    """

    characters: str
    tokens: int
    may_end: bool = False


@final
class Spelling:
    """Which tokens write the beginning of a string.

    Args:
        surfaces: what each token adds to a text; empty for those that add nothing.
    """

    def __init__(self, surfaces: Sequence[str]) -> None:
        self.surfaces = tuple(surfaces)
        self.longest = max(map(len, self.surfaces), default=0)
        self._sorted = sorted((surface, number) for number, surface in enumerate(self.surfaces) if surface)
        self._by_surface = defaultdict[str, list[int]](list)
        for surface, number in self._sorted:
            self._by_surface[surface].append(number)

    def covering(self, characters: str) -> list[int]:
        """Tokens that begin with all these characters."""
        first = bisect_left(self._sorted, (characters, -1))
        last = bisect_left(self._sorted, (characters + _BEYOND, -1))
        return [number for _, number in self._sorted[first:last]]

    def beginning(self, characters: str) -> Iterator[tuple[int, list[int]]]:
        """How many of the first characters, but not all of them, are written by some token, and by which ones."""
        for size in range(1, min(len(characters) - 1, self.longest) + 1):
            if found := self._by_surface.get(characters[:size]):
                yield size, found

    def fewest(self, characters: str) -> list[int]:
        """The least number of tokens that write all characters from each place on; very large where none do."""
        least = [_IMPOSSIBLE] * len(characters)
        for place in reversed(range(len(characters))):
            rest = characters[place:]
            if self.covering(rest):
                least[place] = 1
            else:
                parts = (least[place + size] for size, _ in self.beginning(rest))
                least[place] = min(1 + min(parts, default=_IMPOSSIBLE), _IMPOSSIBLE)
        return least

    def choices(self, word: PartialWord) -> dict[int, PartialWord | None]:
        """The tokens that may come next, each with what must be written behind it; None where nothing must."""
        found: dict[int, PartialWord | None] = {}
        if word.tokens > 0:
            found |= dict.fromkeys(self.covering(word.characters))
            least = self.fewest(word.characters)
            for size, numbers in self.beginning(word.characters):
                if least[size] < word.tokens:
                    found |= dict.fromkeys(numbers, PartialWord(word.characters[size:], word.tokens - 1))
        return found


@final
class Completion:
    """A `Ban` on all tokens that do not write the characters with which each row must go on.

    A word that was begun is not forced in the tokens into which it would be cut if it ended there, because the model
    may write the whole word in others: `Ju` and `li` where it has learned `Juli`. The search finds the tokens.

    Args:
        words: of each row; None where it is free.
        spelling: of the vocabulary.
        eos: what ends a text.
    """

    def __init__(self, words: Sequence[PartialWord | None], *, spelling: Spelling, eos: int) -> None:
        self._words = tuple(words)
        self._spelling = spelling
        self._eos = eos
        self._numbers: dict[PartialWord | None, int] = {None: 0}
        self._states: list[PartialWord | None] = [None]
        self._choices: dict[int, dict[int, PartialWord | None]] = {}

    def begin(self, read: Tokens, /, *, vocabulary: int) -> Int[Tensor, " N"]:
        """The number of each row's word."""
        assert len(self._words) == len(read.ids), "each row has its word"
        assert len(self._spelling.surfaces) == vocabulary, "each token has its surface"
        return torch.tensor([self._number(word) for word in self._words], device=read.ids.device)

    def __call__(self, logits: Float[Tensor, "N V"], state: State, /) -> Float[Tensor, "N V"]:
        """In place."""
        for row, number in enumerate(state.tolist()):
            if number:
                allowed = list(self._following(number))
                kept = logits[row, allowed]
                logits[row] = -math.inf
                logits[row, allowed] = kept
        return logits

    def extend(self, state: State, ids: Int[Tensor, " N"], /) -> Int[Tensor, " N"]:
        """What must be written behind these tokens; nothing behind one that was not allowed."""
        after = [
            self._number(self._following(number).get(token)) if number else 0
            for number, token in zip(state.tolist(), ids.tolist(), strict=True)
        ]
        return torch.tensor(after, dtype=torch.long, device=ids.device)

    def _number(self, word: PartialWord | None) -> int:
        if word not in self._numbers:
            self._numbers[word] = len(self._states)
            self._states.append(word)
        return self._numbers[word]

    def _following(self, number: int) -> dict[int, PartialWord | None]:
        if number not in self._choices:
            word = self._states[number]
            assert word is not None, "the first state has no word"
            ending: dict[int, PartialWord | None] = {self._eos: None} if word.may_end else {}
            self._choices[number] = self._spelling.choices(word) | ending
        return self._choices[number]
