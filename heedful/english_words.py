"""English words: what somebody probably meant by one that is not known, and singulars."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_SINGULARS: Final = {
    "aches": "ache",
    "analyses": "analysis",
    "axes": "axis",
    "caches": "cache",
    "children": "child",
    "criteria": "criterion",
    "data": "data",
    "hypotheses": "hypothesis",
    "indices": "index",
    "leaves": "leaf",
    "lies": "lie",
    "matrices": "matrix",
    "men": "man",
    "movies": "movie",
    "people": "person",
    "series": "series",
    "species": "species",
    "ties": "tie",
    "vertices": "vertex",
    "women": "woman",
}
"""Of plurals that follow no rule, or another one than `to_singular` has."""
_SIBILANT_ENDINGS: Final = ("ches", "shes", "sses", "xes", "zzes")


def closest_match(word: str, known_words: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word that is most like it, whatever its case and its hyphens; None where none is."""
    by_normalized = {_normalize_word(candidate): candidate for candidate in known_words}
    matches = get_close_matches(_normalize_word(word), by_normalized, n=1, cutoff=cutoff)
    return by_normalized[matches[0]] if matches else None


def _normalize_word(word: str) -> str:
    return word.lower().replace("_", "-")


def to_singular(plural: str) -> str:
    """Return the singular of an English noun; of several words, the last one is the noun.

    >>> singular("stretches"), singular("labelled texts"), singular("entries")
    ('stretch', 'labelled text', 'entry')
    """
    prefix, space, noun = plural.rpartition(" ")
    if noun in _SINGULARS:
        result = _SINGULARS[noun]
    elif noun.endswith(_SIBILANT_ENDINGS):
        result = noun[:-2]
    elif noun.endswith("ies"):
        result = noun[:-3] + "y"
    else:
        result = noun if noun.endswith("ss") else noun.removesuffix("s")
    return prefix + space + result


def add_article(noun: str) -> str:
    """Return a noun behind the article that it has in English: `a text`, `an answer`."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
