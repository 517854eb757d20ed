"""Which words of parallel text belong together, as files say it and as pieces of a vocabulary have it.

A line of links is that of Pharaoh and its heirs: `0-0 1-2`, a number of a source word, a hyphen, and one of a target
word, both counted from 0. Words are what stands between white space, as the text was written.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Final, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from heedful.data.batches import PairBatch, collate
from heedful.data.context import own_places
from heedful.data.corpus import Corpus, Encoding, Items
from heedful.data.offsets import offsets
from heedful.data.readers import Pair, Reader, read_lines
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.values import Tokens

Link: TypeAlias = tuple[int, int]
"""A source and a target word, or a source and a target piece."""
LINKS: Final = "links"
"""The side of a corpus that holds those of pieces."""

_LINK: Final = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_WORD: Final = re.compile(r"\S+")


def read_links(line: str, *, place: str) -> tuple[Link, ...]:
    """The links of a line, in its order; `DataError` with its `place` where something else stands there."""
    found = []
    for word in line.split():
        match = _LINK.fullmatch(word)
        if match is None:
            raise DataError(f"{place}: {word!r} is no link; write source-target, as in 0-0, both counted from 0")
        found.append((int(match[1]), int(match[2])))
    return tuple(found)


@final
class Linked(Reader[Pair]):
    """Pairs with the links of their words, which a file has line by line, one for each pair that is read.

    Args:
        pairs: the text; its empty pairs have a line as well, which is empty.
        path: the file of links.

    Raises:
        DataError: as the text's reader; a line is no line of links; a link has no word in its pair; there are more or
            fewer lines than pairs.
    """

    def __init__(self, pairs: Reader[Pair], path: Path) -> None:
        super().__init__(*pairs.paths, path)
        self._pairs = pairs

    def __iter__(self) -> Iterator[Pair]:
        path = self.paths[-1]
        both = zip_longest(self._pairs, read_lines(path))
        for number, (pair, line) in enumerate(both, 1):
            if pair is None or line is None:
                longer = number + sum(1 for _ in both)
                counts = (number - 1, longer) if pair is None else (longer, number - 1)
                text = " and ".join(map(str, self._pairs.paths))
                raise DataError(
                    f"{text}: {counts[0]:,} pairs, and {path} has {counts[1]:,} lines; give the links of each pair a "
                    "line, an empty one where there are none"
                )
            yield pair._replace(links=_checked(read_links(line, place=f"{path}:{number}"), pair, f"{path}:{number}"))


def _checked(links: tuple[Link, ...], pair: Pair, place: str) -> tuple[Link, ...]:
    words = len(pair.source.split()), len(pair.target.split())
    for link in links:
        for number, count, side in zip(link, words, ("source", "target"), strict=True):
            if number >= count:
                raise DataError(
                    f"{place}: link {link[0]}-{link[1]} has no {side} word: {pair.place} has {count} there, counted "
                    "from 0; align the text as it is"
                )
    return links


def word_numbers(tokenizer: Tokenizer, text: str) -> list[int]:
    """For each piece of a text the number of the word, between white space, in which it begins; -1 if it is no part.

    Raises:
        DataError: the pieces are not found again in the text; see `offsets`.
    """
    words = [match.span() for match in _WORD.finditer(text)]
    numbers, word = [], 0
    for start, stop in offsets(tokenizer, text):
        if start == stop:
            numbers.append(-1)
            continue
        while words[word][1] <= start:
            word += 1
        numbers.append(word)
    return numbers


def led_numbers(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> list[int]:
    """The same for the ids of a text with what it follows (`led`), whose words are no part of it."""
    found = [-1] * len(ids)
    for place, number in zip(own_places(tokenizer, ids), word_numbers(tokenizer, text), strict=True):
        found[place] = number
    return found


def linked_pieces(links: Sequence[Link], *, source: Sequence[int], target: Sequence[int]) -> list[Link]:
    """The links of pieces: each piece of a word is linked with each of the other's.

    Args:
        links: of words.
        source: the word of each source piece; see `word_numbers`.
        target: likewise.
    """
    read, written = _by_word(source), _by_word(target)
    return sorted({(s, t) for one, other in links for s in read[one] for t in written[other]})


def _by_word(numbers: Sequence[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for piece, word in enumerate(numbers):
        found[word].append(piece)
    return found


def linked_encoding(pairs: Encoding[Pair], source: Tokenizer, target: Tokenizer) -> Encoding[Pair]:
    """An encoding of parallel text with a third side, the links of pieces; the ends of both sentences are linked.

    Args:
        pairs: gives both sides, each with its end.
        source: the tokenizer of the first.
        target: of the second.
    """

    opened = cache(source.opened)

    def encode(pair: Pair) -> Sequence[Sequence[int] | np.ndarray | None]:
        sides = read, written = pairs.encode(pair)
        ends = [(len(read) - 1, len(written) - 1)] if read and written else [(0, 0)]
        found: list[Link] = []
        if pair.links and read and written:
            try:
                tokenizer = opened(pair.tags)
                words = led_numbers(tokenizer, pair.source, list(read)[:-1]), word_numbers(target, pair.target)
            except DataError as error:
                raise DataError(f"{pair.place}: {error}") from None
            found = linked_pieces(pair.links, source=words[0], target=words[1])
        return (*sides, np.array([*found, *ends]))

    return Encoding({**pairs.sizes, LINKS: Items("<u4", (2,))}, encode, identity=pairs.identity)


@dataclass(frozen=True)
class LinkedBatch(PairBatch[Tokens]):
    """Pairs, and which of their pieces belong together.

    Attributes:
        links: row, place of a label, place in the source.
        shares: of each link, 1 / (links of its label), so that those of a label sum to 1.
        taught: how many labels have links.
    """

    links: Int[Tensor, "L 3"]
    shares: Float[Tensor, " L"]
    taught: int


def collate_linked(corpus: Corpus, rows: Integer[np.ndarray, " B"], *, bos: int) -> LinkedBatch:
    """The pairs in `rows`, as `collate` has them, with their links."""
    pairs, held = collate(corpus, rows, bos=bos), [corpus[LINKS][row] for row in rows]
    row = np.repeat(np.arange(len(held)), [len(each) for each in held])
    source, target = (np.concatenate(held) if held else np.empty((0, 2))).astype(np.int64).T
    _, label, counts = np.unique(np.stack([row, target]), axis=1, return_inverse=True, return_counts=True)
    shares = (1 / counts[label.reshape(-1)]).astype(np.float32)
    links = torch.from_numpy(np.stack([row, target, source], axis=1))
    return LinkedBatch(pairs.source, pairs.target, pairs.labels, links, torch.from_numpy(shares), len(counts))
