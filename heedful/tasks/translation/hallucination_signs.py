"""Signs that a translation has left its source, seen without a reference: in the texts, or by what a model knows."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from heedful.tasks.decoder_target import TextCandidate

REPEATS_SIGN: Final = "the translation repeats itself"
UNFINISHED_SIGN: Final = "the translation was cut at its longest"
COPIED_SIGN: Final = "the translation is the source"
UNSURE_SIGN: Final = "the model is less sure of it than of 99 in 100 that it was calibrated by"
SCATTERED_SIGN: Final = "its attention is more scattered than that of 99 in 100 that it was calibrated by"

_NGRAM: Final = 4
_MIN_EXCESS: Final = 2
"""How much more often than any in the source the commonest n-gram comes (Raunak et al. 2021, 5.1: n = 4, t = 2)."""
_LOOP_PATTERN: Final = re.compile(r"(.{1,12}?)\1{3,}")
"""Up to twelve letters four times in a row."""


def hallucination_signs(source: str, candidate: TextCandidate) -> tuple[str, ...]:
    """What is suspicious of a translation; empty for most."""
    text_signs = find_text_signs(source, candidate.text)
    return text_signs if candidate.finished else (*text_signs, UNFINISHED_SIGN)


def find_text_signs(source: str, text: str) -> tuple[str, ...]:
    """The same of a translation of which nothing but the text is known.

    That a text repeats itself is the commonest sign of hallucination: its commonest n-gram of words comes more often,
    by two at least, than the commonest one of the source does (Raunak et al. 2021, section 5.1).
    """
    found = [REPEATS_SIGN] if has_repetition(source, text) else []
    if len(source.split()) > _NGRAM and source.casefold().split() == text.casefold().split():
        found.append(COPIED_SIGN)
    return tuple(found)


def has_repetition(source: str, text: str) -> bool:
    """Whether a text says the same again and again, and its source does not."""
    if _max_ngram_count(text) - _max_ngram_count(source) >= _MIN_EXCESS:
        return True
    return _LOOP_PATTERN.search(_keep_letters(text)) is not None and _LOOP_PATTERN.search(_keep_letters(source)) is None


def _max_ngram_count(text: str) -> int:
    """How often the commonest n-gram of words comes; 1 where there is none, which is as often as in most texts."""
    words = text.casefold().split()
    counts = Counter(tuple(words[start : start + _NGRAM]) for start in range(len(words) - _NGRAM + 1))
    return max(counts.values(), default=1)


def _keep_letters(text: str) -> str:
    """Rows of dots, dashes or digits are no words."""
    return "".join(filter(str.isalpha, text.casefold()))
