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


def parts(text: str, fits: Callable[[str], bool]) -> list[str]:
    """The text in parts that fit; joined, they are the text.

    What does not fit is split at the ends of its sentences. A sentence that does not fit is split behind a mark of
    punctuation within it, the one nearest to its middle, one without marks between words. So all parts fit but words
    that do not fit alone. No part is empty or, unless the whole text is, of white space; white space between two parts
    ends the first.

    Args:
        text: of any length.
        fits: whether a part is short enough.
    """
    if not text:
        return []
    if fits(text):
        return [text]
    seams = list(_sentence_seams(text)) or _middle(text, _CLAUSE) or _middle(text, _WORD)
    if not seams:
        return [text]
    borders = [0, *seams, len(text)]
    return [part for start, stop in pairwise(borders) for part in parts(text[start:stop], fits)]


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


def _middle(text: str, seam: re.Pattern[str]) -> list[int]:
    """The end of the seam that is nearest to the middle of a text, if there is any."""
    ends = [found.end() for found in seam.finditer(text)]
    return [min(ends, key=lambda end: abs(2 * end - len(text)))] if ends else []
