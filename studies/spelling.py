"""Misspellings as people make them, more or less, and a corrector that knows words and their frequencies alone."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from string import ascii_lowercase
from typing import Final

LETTERS: Final = ascii_lowercase
VOWELS: Final = "aeiouy"
ROWS: Final = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
"""Of the keyboard; each stands half a key further to the right than the one above it."""


def words_of(lines: Iterable[str]) -> Counter[str]:
    """How often each run of Latin letters occurs, in lowercase."""
    counts = Counter[str]()
    for line in lines:
        counts.update(re.findall("[a-z]+", line.lower()))
    return counts


def neighbours() -> Mapping[str, str]:
    """The keys beside each key, in its row and in those above and below."""
    places = {key: (column + 0.5 * row, row) for row, keys in enumerate(ROWS) for column, key in enumerate(keys)}
    return {
        key: "".join(o for o, (a, b) in places.items() if o != key and abs(a - x) <= 1 and abs(b - y) <= 1)
        for key, (x, y) in places.items()
    }


KEYS: Final = neighbours()


def dropped(word: str, dice: random.Random) -> str:
    """Without one of its letters."""
    place = dice.randrange(len(word))
    return word[:place] + word[place + 1 :]


def doubled(word: str, dice: random.Random) -> str:
    """With one of its letters twice."""
    place = dice.randrange(len(word))
    return word[:place] + word[place] + word[place:]


def swapped(word: str, dice: random.Random) -> str:
    """With two letters beside each other in the other order."""
    place = dice.randrange(max(1, len(word) - 1))
    return word[:place] + word[place : place + 2][::-1] + word[place + 2 :]


def missed(word: str, dice: random.Random) -> str:
    """With the key beside the right one."""
    place = dice.randrange(len(word))
    return word[:place] + dice.choice(KEYS[word[place]]) + word[place + 1 :]


def brushed(word: str, dice: random.Random) -> str:
    """With the key beside the right one behind it."""
    place = dice.randrange(len(word))
    return word[: place + 1] + dice.choice(KEYS[word[place]]) + word[place + 1 :]


def misheard(word: str, dice: random.Random) -> str:
    """With another vowel in the place of one."""
    places = [place for place, letter in enumerate(word) if letter in VOWELS]
    if not places:
        return word
    place = dice.choice(places)
    return word[:place] + dice.choice(VOWELS.replace(word[place], "")) + word[place + 1 :]


MISTAKES: Final[Mapping[Callable[[str, random.Random], str], int]] = {
    dropped: 25, misheard: 25, swapped: 15, doubled: 13, missed: 13, brushed: 9,
}  # fmt: skip
"""What goes wrong, and how often of a hundred times; a guess, made before any real misspelling was looked at."""
TWICE: Final = 0.2
"""How often two things go wrong in a word."""


def misspelling(word: str, dice: random.Random) -> str:
    """The word with a mistake or two, which may hit each other."""
    for _ in range(1 + (dice.random() < TWICE)):
        (mistake,) = dice.choices([*MISTAKES], [*MISTAKES.values()])
        word = mistake(word, dice) or word
    return word


def misspellings(counts: Mapping[str, int], *, seed: int) -> Iterator[tuple[str, str]]:
    """Each word as it is, and misspelled: twice, and once more for each doubling of how often it occurs, to ten.

    What comes out as another word is left out, and what came out before.
    """
    dice = random.Random(seed)
    for word in sorted(counts):
        yield word, word
        made = {misspelling(word, dice) for _ in range(min(10, 2 + int(math.log2(counts[word]))))}
        yield from ((each, word) for each in sorted(made) if each not in counts)


class Corrector:
    """The most frequent known word that is the fewest edits away, none, one or two (Norvig 2007, How to Write a
    Spelling Corrector): leaving out, swapping, exchanging and putting in letters.

    Args:
        counts: known words, and how often each occurs.
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = counts

    def correct(self, word: str) -> str:
        """The word itself where it is known, or where nothing that is known is near."""
        return max(self._candidates(word), key=lambda each: (self.counts.get(each, 0), each))

    def _candidates(self, word: str) -> Collection[str]:
        if word in self.counts:
            return [word]
        near = edits(word)
        if found := near & self.counts.keys():
            return found
        return {far for each in near for far in edits(each) if far in self.counts} or [word]


def edits(word: str) -> set[str]:
    """All that is one edit away."""
    parts = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    found = {left + right[1:] for left, right in parts if right}
    found |= {left + right[1] + right[0] + right[2:] for left, right in parts if len(right) > 1}
    found |= {left + letter + right[1:] for left, right in parts if right for letter in LETTERS}
    return found | {left + letter + right for left, right in parts for letter in LETTERS}
