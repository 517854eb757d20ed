"""English words: closest match of an unknown word, singulars, and articles."""

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
"""Singulars of plurals that `to_singular` would get wrong."""
_SIBILANT_ENDINGS: Final = ("ches", "shes", "sses", "xes", "zzes")


def closest_match(word: str, known_words: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known word most similar to `word`, ignoring case and hyphens; None if the similarity of all, from 0 to
    1, is below `cutoff`.
    """
    by_normalized = {_normalize_word(candidate): candidate for candidate in known_words}
    matches = get_close_matches(_normalize_word(word), by_normalized, n=1, cutoff=cutoff)
    return by_normalized[matches[0]] if matches else None


def _normalize_word(word: str) -> str:
    """Lowercase a word, with hyphens for underscores."""
    return word.lower().replace("_", "-")


def to_singular(plural: str) -> str:
    """Return the singular of an English plural; of several words, the last one is the noun.

    >>> to_singular("stretches"), to_singular("labelled texts"), to_singular("entries")
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
    """Return a noun with its article: `a text`, `an answer`."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
