"""BM25 over terms, kept by bm25s in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError, MissingExtraError, RunError

K1: Final = 1.5
"""How slowly a term that occurs again counts less."""
B: Final = 0.75
"""How much long passages are held back."""
_METHOD: Final = "lucene"


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
        """An index of passages as terms.

        Raises:
            MissingExtraError: bm25s is not installed.
            DataError: no passage has any term.
        """
        library = bm25s().BM25(k1=K1, b=B, method=_METHOD)
        vocabulary: dict[str, int] = {}
        rows = [[vocabulary.setdefault(term, len(vocabulary)) for term in passage] for passage in passages]
        if not vocabulary:
            raise DataError("no passage has a word, so nothing can be found; name a file of text")
        library.index((rows, vocabulary), create_empty_token=False, show_progress=False)
        return cls(library)

    @classmethod
    def load(cls, folder: Path) -> WordsIndex:
        """The one that `save` wrote; its arrays are mapped, not read.

        Raises:
            MissingExtraError: bm25s is not installed.
            RunError: bm25s cannot read it.
        """
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
    """The library.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import bm25s as library
    except ImportError:
        raise MissingExtraError(
            "searching passages needs the package bm25s; install it with: pip install 'heedful[search]'"
        ) from None
    module: ModuleType = library
    return module
