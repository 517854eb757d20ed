"""Generator of realistic misspellings, and a corrector that knows only words and their frequencies."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from string import ascii_lowercase
from typing import Final

import torch
from torch import Tensor

from heedful.tensors import Tokens

LETTERS: Final = ascii_lowercase
VOWELS: Final = "aeiouy"
ROWS: Final = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
"""Rows of the keyboard; each is half a key further to the right than the row above it."""


def count_words(lines: Iterable[str]) -> Counter[str]:
    """Count the words of some lines: runs of Latin letters, in lowercase."""
    counts = Counter[str]()
    for line in lines:
        counts.update(re.findall("[a-z]+", line.lower()))
    return counts


def find_neighbours() -> Mapping[str, str]:
    """Return the neighbours of each key, in its row and in the rows above and below."""
    positions = {key: (column + 0.5 * row, row) for row, keys in enumerate(ROWS) for column, key in enumerate(keys)}
    return {
        key: "".join(o for o, (a, b) in positions.items() if o != key and abs(a - x) <= 1 and abs(b - y) <= 1)
        for key, (x, y) in positions.items()
    }


KEYS: Final = find_neighbours()
"""Neighbours of each key."""


def drop_letter(word: str, rng: random.Random) -> str:
    """Delete a random letter."""
    index = rng.randrange(len(word))
    return word[:index] + word[index + 1 :]


def double_letter(word: str, rng: random.Random) -> str:
    """Double a random letter."""
    index = rng.randrange(len(word))
    return word[:index] + word[index] + word[index:]


def swap_letters(word: str, rng: random.Random) -> str:
    """Swap two adjacent letters."""
    index = rng.randrange(max(1, len(word) - 1))
    return word[:index] + word[index : index + 2][::-1] + word[index + 2 :]


def hit_neighbour(word: str, rng: random.Random) -> str:
    """Replace a random letter by the letter of a neighbouring key."""
    index = rng.randrange(len(word))
    return word[:index] + rng.choice(KEYS[word[index]]) + word[index + 1 :]


def add_neighbour(word: str, rng: random.Random) -> str:
    """Insert the letter of a neighbouring key after a random letter."""
    index = rng.randrange(len(word))
    return word[: index + 1] + rng.choice(KEYS[word[index]]) + word[index + 1 :]


def replace_vowel(word: str, rng: random.Random) -> str:
    """Replace a random vowel by another vowel."""
    indices = [index for index, letter in enumerate(word) if letter in VOWELS]
    if not indices:
        return word
    index = rng.choice(indices)
    return word[:index] + rng.choice(VOWELS.replace(word[index], "")) + word[index + 1 :]


MISTAKES: Final[Mapping[Callable[[str, random.Random], str], int]] = {
    drop_letter: 25, replace_vowel: 25, swap_letters: 15, double_letter: 13, hit_neighbour: 13, add_neighbour: 9,
}  # fmt: skip
"""Kinds of mistakes and their frequencies in percent; a guess, made before looking at real misspellings."""
TWO_MISTAKES: Final = 0.2
"""Probability of two mistakes in a word."""


def misspell(word: str, rng: random.Random) -> str:
    """Make one or two random mistakes in a word; the second may change the first."""
    for _ in range(1 + (rng.random() < TWO_MISTAKES)):
        (mistake,) = rng.choices([*MISTAKES], [*MISTAKES.values()])
        word = mistake(word, rng) or word
    return word


def generate_misspellings(counts: Mapping[str, int], *, seed: int) -> Iterator[tuple[str, str]]:
    """Yield pairs of a misspelling and its word, and each word with itself.

    A word gets two misspellings, and one more for each doubling of its count, up to ten. Misspellings that are known
    words are left out, and so are duplicates.
    """
    rng = random.Random(seed)
    for word in sorted(counts):
        yield word, word
        variants = {misspell(word, rng) for _ in range(min(10, 2 + int(math.log2(counts[word]))))}
        yield from ((variant, word) for variant in sorted(variants) if variant not in counts)


class KnownTexts:
    """Logits mask that allows only known texts, by the tree of their prefixes (De Cao et al. 2021, 3.2).

    Args:
        texts: tokens of each known text, without its end.
        eos: the token that ends a text.
    """

    def __init__(self, texts: Iterable[Sequence[int]], *, eos: int) -> None:
        self._children: list[dict[int, int]] = [{}]
        for ids in texts:
            node = 0
            for token in ids:
                if token not in self._children[node]:
                    self._children[node][token] = len(self._children)
                    self._children.append({})
                node = self._children[node][token]
            self._children[node][eos] = 0

    def init_state(self, tokens: Tokens, /, *, vocab_size: int) -> Tensor:
        """Return the node of each row, the root."""
        return torch.zeros(len(tokens.ids), dtype=torch.long)

    def __call__(self, logits: Tensor, state: Tensor, /) -> Tensor:
        """Forbid the tokens after which no known text continues, in place."""
        forbidden = torch.ones(logits.shape, dtype=torch.bool)
        for row, node in enumerate(state.tolist()):
            forbidden[row, [*self._children[node]]] = False
        return logits.masked_fill_(forbidden, -math.inf)

    def extend(self, state: Tensor, ids: Tensor, /) -> Tensor:
        """Return the nodes after the new tokens; the root after the end of a text or a forbidden token."""
        nodes = zip(state.tolist(), ids.tolist(), strict=True)
        return torch.tensor([self._children[node].get(token, 0) for node, token in nodes])


class Corrector:
    """Spelling corrector that chooses the most frequent known word at the smallest edit distance, up to two.

    Edits are deletions, swaps, replacements and insertions (Norvig 2007, How to Write a Spelling Corrector).

    Args:
        counts: known words with their counts.
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = counts

    def correct(self, word: str) -> str:
        """Return the correction of a word; the word itself if it is known or no known word is near."""
        return max(self._find_candidates(word), key=lambda candidate: (self.counts.get(candidate, 0), candidate))

    def _find_candidates(self, word: str) -> Collection[str]:
        """Find the known words at the smallest edit distance."""
        if word in self.counts:
            return [word]
        near = list_edits(word)
        if known := near & self.counts.keys():
            return known
        return {far for edit in near for far in list_edits(edit) if far in self.counts} or [word]


def list_edits(word: str) -> set[str]:
    """Return all strings at edit distance one from a word."""
    parts = [(word[:index], word[index:]) for index in range(len(word) + 1)]
    results = {left + right[1:] for left, right in parts if right}
    results |= {left + right[1] + right[0] + right[2:] for left, right in parts if len(right) > 1}
    results |= {left + letter + right[1:] for left, right in parts if right for letter in LETTERS}
    return results | {left + letter + right for left, right in parts for letter in LETTERS}
