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
"""Of plurals that follow no rule, or another one than `singular` has."""
_HISSING: Final = ("ches", "shes", "sses", "xes", "zzes")


def near(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word that is most like it, whatever its case and its hyphens; None where none is."""
    plain = {_plain(each): each for each in known}
    found = get_close_matches(_plain(word), plain, n=1, cutoff=cutoff)
    return plain[found[0]] if found else None


def _plain(word: str) -> str:
    return word.lower().replace("_", "-")


def singular(plural: str) -> str:
    """Return the singular of an English noun; of several words, the last one is the noun.

    >>> singular("stretches"), singular("labelled texts"), singular("entries")
    ('stretch', 'labelled text', 'entry')
    """
    before, space, noun = plural.rpartition(" ")
    if noun in _SINGULARS:
        one = _SINGULARS[noun]
    elif noun.endswith(_HISSING):
        one = noun[:-2]
    elif noun.endswith("ies"):
        one = noun[:-3] + "y"
    else:
        one = noun if noun.endswith("ss") else noun.removesuffix("s")
    return before + space + one


def with_article(noun: str) -> str:
    """Return a noun behind the article that it has in English: `a text`, `an answer`."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
