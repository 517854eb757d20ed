"""Memory-mapped arrays of an index, and the BM25 index of its words."""

from __future__ import annotations

import math
import os
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from jaxtyping import Float

from heedful.atomic_io import describe_error
from heedful.characters import letters_and_marks
from heedful.errors import DataError, MissingExtraError, RunError
from heedful.files import open_regular, read_json


def map_array(path: Path, *, dtypes: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """Memory-map an array of an index after comparing its header with `dtypes`, the allowed names between spaces, and
    `shape`, in which None allows any length.

    Args:
        path: of a .npy file.
        dtypes: names of the allowed dtypes, separated by spaces.
        shape: its length along each axis; None allows any length.

    Raises:
        RunError: the file is missing or contains another array.
    """
    try:
        with open_regular(path) as file:
            found_shape, fortran, found_dtype = _read_array_header(file)
            if fortran or found_dtype.name not in dtypes.split() or len(found_shape) != len(shape):
                raise ValueError(f"it holds {found_dtype} of shape {found_shape}")
            if any(expected not in (None, length) for length, expected in zip(found_shape, shape, strict=True)):
                raise ValueError(f"it has the shape {found_shape}, and {shape} belongs to this index")
            start = file.tell()
            if os.fstat(file.fileno()).st_size != start + found_dtype.itemsize * math.prod(found_shape):
                raise ValueError("its size differs from that of its array")
            if not math.prod(found_shape):
                return np.zeros(found_shape, found_dtype)
            return np.memmap(file, dtype=found_dtype, mode="r", offset=start, shape=found_shape)
    except (OSError, ValueError, OverflowError) as error:
        raise RunError(
            f"{path}: is not an array of this index ({describe_error(error)}); build the index again with --rebuild"
        ) from None


def _read_array_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the shape, whether the order is Fortran's, and the dtype from an open .npy file; raise `ValueError` if they
    are invalid.
    """
    try:
        version = np.lib.format.read_magic(file)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in readers:
            raise ValueError(f"it has the version {version} of its format")
        header: tuple[tuple[int, ...], bool, np.dtype[Any]] = readers[version](file)
    except ValueError:
        raise
    except Exception as error:  # parsing a header raises many kinds of exceptions
        raise ValueError(f"its header cannot be read, {type(error).__name__}") from None
    if min(header[0], default=0) < 0:
        raise ValueError("a length below 0")
    return header


K1: Final = 1.5
"""BM25 saturation: how slowly further occurrences of a term add to the score."""
B: Final = 0.75
"""BM25 length normalisation: how much long passages are penalised."""
_METHOD: Final = "lucene"
_SCORES, _ROWS, _STARTS = (f"{name}.csc.index.npy" for name in ("data", "indices", "indptr"))
_TERMS, _SETTINGS = "vocab.index.json", "params.index.json"
INDEX_FILES: Final = (_SCORES, _ROWS, _STARTS, _TERMS, _SETTINGS)
"""Files that bm25s writes into its folder."""

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3041-\u309f\u30a1-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)


class TextTerm(NamedTuple):
    """A term for counting, with the range of characters of the text that it comes from."""

    text: str
    start: int
    stop: int


def extract_terms(text: str) -> list[TextTerm]:
    """Return the terms of a text, in order.

    A term is a run of letters, combining marks and digits, case-folded, in Unicode's compatible composed form (NFKC).
    Scripts without spaces between words (Han, Kana, Thai, Lao, Khmer, Myanmar) are split into overlapping pairs of
    characters instead; a single character is a term by itself. There is no stemming and no list of stop words: frequent
    words have little weight in BM25.
    """
    extracted = []
    for match in _build_term_pattern().finditer(text):
        start, stop = match.span()
        width = 2 if match.lastgroup == "unspaced" and stop - start > 2 else stop - start
        for index in range(start, stop - width + 1):
            folded = unicodedata.normalize("NFKC", text[index : index + width].casefold())
            extracted.append(TextTerm(folded, index, index + width))
    return extracted


class BM25Index:
    """BM25 index with Lucene's formula (Kamphuis et al. 2020).

    The score of a passage is the sum over the terms t of the query, each as often as it occurs there, of

        ln(1 + (N - n_t + 0.5) / (n_t + 0.5)) * f_t / (f_t + k1 * (1 - b + b * l / mean l))

    for N passages, n_t of which contain t, f_t times in this one, which has l terms.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    @classmethod
    def from_passages(cls, passages: Iterable[Iterable[str]]) -> BM25Index:
        """Build an index of passages that are given as terms.

        Raises:
            DataError: no passage has a term.
        """
        library = import_bm25s().BM25(k1=K1, b=B, method=_METHOD)
        vocabulary: dict[str, int] = {}
        rows = [[vocabulary.setdefault(term, len(vocabulary)) for term in passage] for passage in passages]
        if not vocabulary:
            raise DataError("the passages contain no words, so nothing can be found; name a file of text")
        library.index((rows, vocabulary), create_empty_token=False, show_progress=False)
        return cls(library)

    @classmethod
    def load(cls, folder: Path, *, num_passages: int) -> BM25Index:
        """Load the index of `num_passages` passages that `save` wrote; its arrays are memory-mapped.

        Raises:
            RunError: the files are missing or do not fit each other.
        """
        library = import_bm25s().BM25(k1=K1, b=B, method=_METHOD)
        scores = map_array(folder / _SCORES, dtypes="float32 float64", shape=(None,))
        rows = map_array(folder / _ROWS, dtypes="int32 int64", shape=scores.shape)
        starts = map_array(folder / _STARTS, dtypes="int32 int64", shape=(None,))
        try:
            vocabulary, settings = read_json(folder / _TERMS), read_json(folder / _SETTINGS)
            _check_vocabulary(vocabulary, count=len(starts) - 1)
            if settings["method"] != _METHOD or (count := settings["num_docs"]) != num_passages:
                raise ValueError(f"its settings are not those of {num_passages:,} passages by {_METHOD}")
            if starts[0] != 0 or starts[-1] != len(rows) or np.diff(starts).min(initial=0) < 0:
                raise ValueError("its terms do not begin where the previous ones end")
            if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < count:
                raise ValueError("it refers to passages that do not exist")
            if not np.isfinite(scores).all():
                raise ValueError("it holds scores that are not numbers")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"{folder}: cannot be read ({describe_error(error)}); build the index again with --rebuild"
            ) from None
        library.scores = {"data": scores, "indices": rows, "indptr": starts, "num_docs": count}
        library.vocab_dict, library.unique_token_ids_set = vocabulary, set(vocabulary.values())
        library.nonoccurrence_array = None
        return cls(library)

    def save(self, folder: Path) -> None:
        """Save arrays as .npy, terms and parameters as JSON, without pickle."""
        self._library.save(folder)  # shows progress only of texts, of which there are none here

    def get_passage_share(self, term: str) -> float:
        """Return the share of the passages that contain a term."""
        term_number = self._library.vocab_dict.get(term)
        if term_number is None:
            return 0.0
        starts, num_passages = self._library.scores["indptr"], self._library.scores["num_docs"]
        return float(starts[term_number + 1] - starts[term_number]) / float(num_passages)

    def score_passages(self, terms: Iterable[str]) -> Float[np.ndarray, " N"]:
        """Return the score of each passage; terms that no passage contains count 0."""
        term_numbers = self._library.get_tokens_ids(list(terms))
        scores: np.ndarray = self._library.get_scores_from_ids(term_numbers)
        return scores


def _check_vocabulary(vocabulary: Any, *, count: int) -> None:
    """Raise `ValueError` unless the vocabulary maps `count` terms to numbers below `count`.

    An older version of bm25s adds an empty term.
    """
    if not isinstance(vocabulary, dict) or len(vocabulary) != count:
        raise ValueError(f"it does not hold {count:,} terms")
    if any(type(term_number) is not int or not 0 <= term_number < count for term_number in vocabulary.values()):
        raise ValueError("it holds a term without a number")


def import_bm25s() -> ModuleType:
    """Import the bm25s library.

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


@cache
def _build_term_pattern() -> re.Pattern[str]:
    """Return the pattern of terms; its group `unspaced` matches scripts without spaces."""
    return re.compile(
        rf"(?P<unspaced>(?:(?=[{letters_and_marks()}])[{_UNSPACED}])+)|(?:(?![_{_UNSPACED}])[{letters_and_marks()}])+"
    )
