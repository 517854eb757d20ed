"""Signs that a translation has left its source, seen without a reference: in the texts, or by what a model knows."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from heedful.tasks.target import Candidate

REPEATS: Final = "the translation repeats itself"
UNFINISHED: Final = "the translation was cut at its longest"
COPIED: Final = "the translation is the source"
UNSURE: Final = "the model is less sure of it than of 99 in 100 that it was calibrated by"
SCATTERED: Final = "its attention is more scattered than that of 99 in 100 that it was calibrated by"

_NGRAM: Final = 4
_MORE: Final = 2
"""How much more often than any in the source the commonest n-gram comes (Raunak et al. 2021, 5.1: n = 4, t = 2)."""
_LOOP: Final = re.compile(r"(.{1,12}?)\1{3,}")
"""Up to twelve letters four times in a row."""


def signs(source: str, found: Candidate) -> tuple[str, ...]:
    """What is suspicious of a translation; empty for most."""
    seen = signs_of_text(source, found.text)
    return seen if found.finished else (*seen, UNFINISHED)


def signs_of_text(source: str, text: str) -> tuple[str, ...]:
    """The same of a translation of which nothing but the text is known.

    That a text repeats itself is the commonest sign of hallucination: its commonest n-gram of words comes more often,
    by two at least, than the commonest one of the source does (Raunak et al. 2021, section 5.1).
    """
    seen = [REPEATS] if repeats(source, text) else []
    if len(source.split()) > _NGRAM and source.casefold().split() == text.casefold().split():
        seen.append(COPIED)
    return tuple(seen)


def repeats(source: str, text: str) -> bool:
    """Whether a text says the same again and again, and its source does not."""
    if _commonest(text) - _commonest(source) >= _MORE:
        return True
    return _LOOP.search(_letters(text)) is not None and _LOOP.search(_letters(source)) is None


def _commonest(text: str) -> int:
    """How often the commonest n-gram of words comes; 1 where there is none, which is as often as in most texts."""
    words = text.casefold().split()
    counts = Counter(tuple(words[at : at + _NGRAM]) for at in range(len(words) - _NGRAM + 1))
    return max(counts.values(), default=1)


def _letters(text: str) -> str:
    """Rows of dots, dashes or digits are no words."""
    return "".join(filter(str.isalpha, text.casefold()))
