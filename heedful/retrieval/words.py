"""Text as a search by words reads it: its terms, and BM25 over them, kept by bm25s in a folder of its own."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np
from jaxtyping import Float

from heedful.characters import letters_and_marks
from heedful.errors import DataError, MissingExtraError, RunError

K1: Final = 1.5
"""How slowly a term that occurs again counts less."""
B: Final = 0.75
"""How much long passages are held back."""
_METHOD: Final = "lucene"

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
        for place in range(start, stop - width + 1):
            folded = unicodedata.normalize("NFKC", text[place : place + width].casefold())
            found.append(Term(folded, place, place + width))
    return found


class WordsIndex:
    """BM25 as Lucene counts it (Kamphuis et al. 2020).

    The score of a passage is the sum over the terms t of the query, each as often as it stands there, of

        ln(1 + (N - n_t + 0.5) / (n_t + 0.5)) * f_t / (f_t + k1 * (1 - b + b * l / mean l))

    with N passages, n_t of which hold t, f_t times in this one, which has l terms.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    @classmethod
    def of(cls, passages: Iterable[Iterable[str]]) -> WordsIndex:
        """An index of passages as terms; `DataError` where no passage has any."""
        library = bm25s().BM25(k1=K1, b=B, method=_METHOD)
        vocabulary: dict[str, int] = {}
        rows = [[vocabulary.setdefault(term, len(vocabulary)) for term in passage] for passage in passages]
        if not vocabulary:
            raise DataError("no passage has a word, so nothing can be found; name a file of text")
        library.index((rows, vocabulary), create_empty_token=False, show_progress=False)
        return cls(library)

    @classmethod
    def load(cls, folder: Path) -> WordsIndex:
        """The one that `save` wrote; its arrays are mapped, not read. `RunError` where bm25s cannot read it."""
        library = bm25s()
        try:
            return cls(library.BM25.load(folder, mmap=True, load_corpus=False))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{folder}: bm25s cannot read it ({error}); build the index again with --rebuild") from None

    def save(self, folder: Path) -> None:
        """Arrays as .npy, terms and parameters as JSON; nothing is pickled."""
        self._library.save(folder, show_progress=False)

    def share(self, term: str) -> float:
        """The share of the passages that have a term."""
        number = self._library.vocab_dict.get(term)
        if number is None:
            return 0.0
        begins, count = self._library.scores["indptr"], self._library.scores["num_docs"]
        return float(begins[number + 1] - begins[number]) / float(count)

    def scores(self, terms: Iterable[str]) -> Float[np.ndarray, " N"]:
        """The score of each passage; terms that no passage has count nothing."""
        known = self._library.get_tokens_ids(list(terms))
        found: np.ndarray = self._library.get_scores_from_ids(known)
        return found


def bm25s() -> ModuleType:
    """The library; `MissingExtraError` where it is not installed."""
    try:
        import bm25s as library
    except ImportError:
        raise MissingExtraError(
            "searching passages needs the package bm25s; install it with: pip install 'heedful[search]'"
        ) from None
    module: ModuleType = library
    return module


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile(
        rf"(?P<unspaced>(?:(?=[{letters_and_marks()}])[{_UNSPACED}])+)|(?:(?![_{_UNSPACED}])[{letters_and_marks()}])+"
    )
