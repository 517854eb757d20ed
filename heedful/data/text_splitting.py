# ruff: noqa: RUF001  (marks of punctuation of other scripts look alike)
"""Split long texts into parts that a model can read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Final

from heedful.data.sentence_splitting import split_sentences

_CLAUSE_END: Final = re.compile(r"(?:[,;:،؛]|\s[-–—])\s+(?=\S)|[，、；：](?=\S)\s*")
"""Marks of punctuation behind which a clause ends; those of Chinese and Japanese need no space."""
_WORD_GAP: Final = re.compile(r"(?<=\S)\s+(?=\S)")
_NOTHING: Final = re.compile(r"(?!)")


def split_text(text: str, fits: Callable[[str], bool], *, protected: re.Pattern[str] = _NOTHING) -> list[str]:
    """Split a text into parts that fit; joined together, they are the text.

    A text that does not fit is split at the ends of its sentences. A sentence that does not fit is split after the
    punctuation mark nearest to its middle, or between words if it has no marks. So every part fits, except words that
    do not fit alone. No part is empty or, unless the whole text is, of white space; white space between two parts ends
    the first.

    Args:
        text: a text of any length.
        fits: returns whether a part is short enough.
        protected: matches of this pattern are split only if there is no other place to split.
    """
    if not text:
        return []
    if fits(text):
        return [text]
    split_points = _find_split_points(text, protected)
    if not split_points:
        return [text]
    borders = [0, *split_points, len(text)]
    return [
        piece for start, stop in pairwise(borders) for piece in split_text(text[start:stop], fits, protected=protected)
    ]


def iter_gaps(text: str, stripped_parts: Iterable[str]) -> Iterator[str]:
    """Yield the white space before each part in a text, given the parts without their outer white space."""
    position = 0
    for part in stripped_parts:
        start = text.index(part, position)
        yield text[position:start]
        position = start + len(part)


def _find_sentence_starts(text: str) -> Iterator[int]:
    """Yield the start of every sentence but the first."""
    position = 0
    for number, sentence in enumerate(split_sentences(text)):
        start = text.index(sentence, position)
        if number:
            yield start
        position = start + len(sentence)


def _find_split_points(text: str, protected: re.Pattern[str]) -> list[int]:
    """Return where to split a text: between all sentences, or else at the place within one that is nearest to the
    middle.
    """
    protected_positions = {
        position for match in protected.finditer(text) for position in range(match.start() + 1, match.end())
    }
    for excluded in (protected_positions, set[int]()):
        if starts := [position for position in _find_sentence_starts(text) if position not in excluded]:
            return starts
        for pattern in (_CLAUSE_END, _WORD_GAP):
            if ends := [end for match in pattern.finditer(text) if (end := match.end()) not in excluded]:
                return [min(ends, key=lambda end: abs(2 * end - len(text)))]
    return []
