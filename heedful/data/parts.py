# ruff: noqa: RUF001  (marks of punctuation of other scripts look alike)
"""Long texts as parts that a model can read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Final

from heedful.data.sentences import sentences

_CLAUSE: Final = re.compile(r"(?:[,;:،؛]|\s[-–—])\s+(?=\S)|[，、；：](?=\S)\s*")
"""Marks of punctuation behind which a clause ends; those of Chinese and Japanese need no space."""
_WORD: Final = re.compile(r"(?<=\S)\s+(?=\S)")
_NOTHING: Final = re.compile(r"(?!)")


def parts(text: str, fits: Callable[[str], bool], *, whole: re.Pattern[str] = _NOTHING) -> list[str]:
    """The text in parts that fit; joined, they are the text.

    What does not fit is split at the ends of its sentences. A sentence that does not fit is split behind a mark of
    punctuation within it, the one nearest to its middle, one without marks between words. So all parts fit but words
    that do not fit alone. No part is empty or, unless the whole text is, of white space; white space between two parts
    ends the first.

    Args:
        text: of any length.
        fits: whether a part is short enough.
        whole: what is split only where it is all that is left to split.
    """
    if not text:
        return []
    if fits(text):
        return [text]
    seams = _seams(text, whole)
    if not seams:
        return [text]
    borders = [0, *seams, len(text)]
    return [part for start, stop in pairwise(borders) for part in parts(text[start:stop], fits, whole=whole)]


def spaces(text: str, stripped: Iterable[str]) -> Iterator[str]:
    """What stands in a text in front of each of its parts, whose own outer white space was taken away."""
    at = 0
    for part in stripped:
        start = text.index(part, at)
        yield text[at:start]
        at = start + len(part)


def _sentence_seams(text: str) -> Iterator[int]:
    """Where all sentences but the first begin."""
    at = 0
    for number, sentence in enumerate(sentences(text)):
        start = text.index(sentence, at)
        if number:
            yield start
        at = start + len(sentence)


def _seams(text: str, whole: re.Pattern[str]) -> list[int]:
    """Where to split: behind all sentences, or else at the place within one that is nearest to the middle."""
    inside = {at for found in whole.finditer(text) for at in range(found.start() + 1, found.end())}
    for kept in (inside, set[int]()):
        if seams := [at for at in _sentence_seams(text) if at not in kept]:
            return seams
        for seam in (_CLAUSE, _WORD):
            if ends := [end for found in seam.finditer(text) if (end := found.end()) not in kept]:
                return [min(ends, key=lambda end: abs(2 * end - len(text)))]
    return []
