"""Text as a search by words reads it: terms, and where they stand."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import NamedTuple

from heedful.data.normalisation import letters_and_marks

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3041-\u309f\u30a1-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)


class Term(NamedTuple):
    """What is counted, and the characters of the text that it was made of."""

    text: str
    start: int
    stop: int


def terms(text: str) -> list[Term]:
    """The terms of a text, in its order.

    A term is a run of letters, combining marks and digits, its case folded, in Unicode's compatible composed form
    (NFKC). Scripts without spaces between words (Han, Kana, Thai, Lao, Khmer, Myanmar) are cut into overlapping pairs
    of characters instead; a single one stands alone. Nothing is stemmed and no word is left out: a frequent one has
    little weight in BM25.
    """
    found = []
    for match in _pattern().finditer(text):
        start, stop = match.span()
        width = 2 if match.lastgroup == "unspaced" and stop - start > 2 else stop - start
        found += [
            Term(_folded(text[place : place + width]), place, place + width) for place in range(start, stop - width + 1)
        ]
    return found


def _folded(word: str) -> str:
    return unicodedata.normalize("NFKC", word.casefold())


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile(
        rf"(?P<unspaced>(?:(?=[{letters_and_marks()}])[{_UNSPACED}])+)|(?:(?![_{_UNSPACED}])[{letters_and_marks()}])+"
    )
