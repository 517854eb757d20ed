"""Signs of hallucinated translations without a reference, from the texts or from what a model knows."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from heedful.tasks.decoder_target import TextCandidate

REPEATS_SIGN: Final = "the translation repeats itself"
UNFINISHED_SIGN: Final = "the translation was cut at the maximum length"
COPIED_SIGN: Final = "the translation is the source"
UNSURE_SIGN: Final = "the model is less sure of it than of 99 in 100 calibration translations"
SCATTERED_SIGN: Final = "its attention is more scattered than that of 99 in 100 calibration translations"

_NGRAM: Final = 4
_MIN_EXCESS: Final = 2
"""Minimum excess of the most frequent n-gram's count over that of the source (Raunak et al. 2021, 5.1: n = 4, t =
2)."""
_LOOP_PATTERN: Final = re.compile(r"(.{1,12}?)\1{3,}")
"""Up to twelve letters repeated four times in a row."""


def hallucination_signs(source: str, candidate: TextCandidate) -> tuple[str, ...]:
    """Return the signs that a translation is wrong; empty for most."""
    text_signs = find_text_signs(source, candidate.text)
    return text_signs if candidate.finished else (*text_signs, UNFINISHED_SIGN)


def find_text_signs(source: str, text: str) -> tuple[str, ...]:
    """Return the signs that can be seen in the text of a translation alone.

    Repetition is the most frequent sign of hallucination: the most frequent word n-gram of the text occurs at least
    twice more often than that of the source (Raunak et al. 2021, section 5.1).
    """
    found = [REPEATS_SIGN] if has_repetition(source, text) else []
    if len(source.split()) > _NGRAM and source.casefold().split() == text.casefold().split():
        found.append(COPIED_SIGN)
    return tuple(found)


def has_repetition(source: str, text: str) -> bool:
    """Return whether a text repeats itself while its source does not."""
    if _max_ngram_count(text) - _max_ngram_count(source) >= _MIN_EXCESS:
        return True
    return _LOOP_PATTERN.search(_keep_letters(text)) is not None and _LOOP_PATTERN.search(_keep_letters(source)) is None


def _max_ngram_count(text: str) -> int:
    """Return the count of the most frequent word n-gram; 1 if there is none, as in most texts."""
    words = text.casefold().split()
    counts = Counter(tuple(words[start : start + _NGRAM]) for start in range(len(words) - _NGRAM + 1))
    return max(counts.values(), default=1)


def _keep_letters(text: str) -> str:
    """Return the letters of a text; rows of dots, dashes or digits are ignored."""
    return "".join(filter(str.isalpha, text.casefold()))
