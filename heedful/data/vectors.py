"""Word vectors that somebody else trained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.data.readers import read_lines
from heedful.errors import DataError


class WordVectors(NamedTuple):
    """Vectors beside the ids of the words they belong to, in the order of their file."""

    vectors: Float[Tensor, "n d"]
    ids: Int[Tensor, " n"]


def read_word_vectors(path: Path, *, vocabulary: Mapping[str, int], d_model: int) -> WordVectors:
    """The vectors of the words in `vocabulary`, from the text format of word2vec and GloVe, plain or gzip.

    Each line is a word and its numbers with a space between; a first line of two integers is a header
    (words and dimensions). Of a word that occurs twice the first vector counts. Numbers are read only for words
    in the vocabulary; a file without any of them gives no vectors.

    Raises:
        DataError: a vector has not `d_model` numbers, a number is none or not finite, or lines are missing.
    """
    found: dict[int, np.ndarray] = {}
    promised: int | None = None
    number = 0
    for number, line in enumerate(read_lines(path), 1):
        place = f"{path}:{number}"
        fields = line.strip(" ").split(" ")
        if number == 1 and _is_header(fields):
            promised = int(fields[0])
            _require_dimension(int(fields[1]), d_model=d_model, place=place)
            continue
        word = _word(fields, d_model=d_model, place=place)
        if word in vocabulary and vocabulary[word] not in found:
            found[vocabulary[word]] = _vector(fields[-d_model:], place=place)
    if promised is not None and number - 1 != promised:
        raise DataError(f"{path}: its header promises {promised} words, but there are {number - 1}; fetch it again")
    stacked = np.stack(list(found.values())) if found else np.empty((0, d_model), dtype=np.float32)
    return WordVectors(torch.from_numpy(stacked), torch.tensor(list(found), dtype=torch.int64))


def _is_header(fields: list[str]) -> bool:
    return len(fields) == 2 and all(field.isascii() and field.isdigit() and len(field) < 19 for field in fields)


def _require_dimension(found: int, *, d_model: int, place: str) -> None:
    if found != d_model:
        raise DataError(f"{place}: vectors of {found} numbers where d_model is {d_model}; make the two equal")


def _word(fields: list[str], *, d_model: int, place: str) -> str:
    """The word before the numbers; a few words of published files hold spaces, but none ends in a number."""
    spare = len(fields) - d_model
    if spare < 1 or (spare > 1 and _is_number(fields[spare - 1])):
        _require_dimension(len(fields) - 1, d_model=d_model, place=place)
    return " ".join(fields[:spare])


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _vector(fields: list[str], *, place: str) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # which leaves an infinity for the check below
            vector = np.array([float(field) for field in fields]).astype(np.float32)
    except ValueError as error:
        raise DataError(f"{place}: {error}; mend the line") from None
    if not np.isfinite(vector).all():
        raise DataError(f"{place}: a number that is not finite; mend the line")
    return vector
