"""Read pretrained word vectors."""

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
    """Word vectors with the vocabulary ids of their words, in the order of the file."""

    vectors: Float[Tensor, "n d"]
    ids: Int[Tensor, " n"]


def read_word_vectors(path: Path, *, vocabulary: Mapping[str, int], d_model: int) -> WordVectors:
    """Read the vectors of the words in `vocabulary` from the text format of word2vec and GloVe, plain or gzip.

    Each line is a word and its numbers with a space between; a first line of two integers is a header
    (words and dimensions). If a word occurs twice, the first vector counts. Numbers are parsed only for words
    in the vocabulary; a file without any of them gives no vectors.

    Raises:
        DataError: a vector does not have `d_model` numbers, a number is invalid or not finite, or lines are missing.
    """
    vectors: dict[int, np.ndarray] = {}
    declared_count: int | None = None
    line_number = 0
    for line_number, line in enumerate(read_lines(path), 1):
        location = f"{path}:{line_number}"
        fields = line.strip(" ").split(" ")
        if line_number == 1 and _is_header(fields):
            declared_count = int(fields[0])
            _require_dimension(int(fields[1]), d_model=d_model, location=location)
            continue
        word = _parse_word(fields, d_model=d_model, location=location)
        if word in vocabulary and vocabulary[word] not in vectors:
            vectors[vocabulary[word]] = _parse_vector(fields[-d_model:], location=location)
    if declared_count is not None and line_number - 1 != declared_count:
        raise DataError(
            f"{path}: its header promises {declared_count} words, but there are {line_number - 1}; fetch it again"
        )
    stacked = np.stack(list(vectors.values())) if vectors else np.empty((0, d_model), dtype=np.float32)
    return WordVectors(torch.from_numpy(stacked), torch.tensor(list(vectors), dtype=torch.int64))


def _is_header(fields: list[str]) -> bool:
    """Return whether the first line is a header of two integers."""
    return len(fields) == 2 and all(field.isascii() and field.isdigit() and len(field) < 19 for field in fields)


def _require_dimension(dimension: int, *, d_model: int, location: str) -> None:
    """Raise `DataError` if the dimension is not `d_model`."""
    if dimension != d_model:
        raise DataError(f"{location}: vectors of {dimension} numbers where d_model is {d_model}; make the two equal")


def _parse_word(fields: list[str], *, d_model: int, location: str) -> str:
    """Return the word before the numbers; a few words in published files contain spaces, but none ends in a number."""
    num_word_fields = len(fields) - d_model
    if num_word_fields < 1 or (num_word_fields > 1 and _is_number(fields[num_word_fields - 1])):
        _require_dimension(len(fields) - 1, d_model=d_model, location=location)
    return " ".join(fields[:num_word_fields])


def _is_number(field: str) -> bool:
    """Return whether a field is a number."""
    try:
        float(field)
    except ValueError:
        return False
    return True


def _parse_vector(fields: list[str], *, location: str) -> np.ndarray:
    """Parse the numbers of a vector; raise `DataError` if one is invalid or not finite."""
    try:
        with np.errstate(over="ignore"):  # which leaves an infinity for the check below
            vector = np.array([float(field) for field in fields]).astype(np.float32)
    except ValueError as error:
        raise DataError(f"{location}: {error}; mend the line") from None
    if not np.isfinite(vector).all():
        raise DataError(f"{location}: a number that is not finite; mend the line")
    return vector
