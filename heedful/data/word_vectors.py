"""Word vectors from files, and maps from an old vocabulary to a new one that initialise new pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.data.readers import read_lines
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError


class WordVectors(NamedTuple):
    """Word vectors with the vocabulary ids of their words, in the order of the file."""

    vectors: Float[Tensor, "n d"]
    ids: Int[Tensor, " n"]


def read_word_vectors(path: Path, *, vocabulary: Mapping[str, int], d_model: int) -> WordVectors:
    """Read the vectors of the words in `vocabulary` from the text format of word2vec and GloVe, plain or compressed.

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
    """Return the word before the `d_model` numbers of a line; raise `DataError` at `location` if there are more or
    fewer numbers. A few words in published files contain spaces, but none ends in a number.
    """
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
    """Parse the numbers of a vector; raise `DataError` at `location` if one is invalid or not finite."""
    if (invalid := next((field for field in fields if not _is_number(field)), None)) is not None:
        raise DataError(f"{location}: {invalid[:60]!r} is not a number; correct the line")
    with np.errstate(over="ignore"):  # which leaves an infinity for the check below
        vector = np.array([float(field) for field in fields]).astype(np.float32)
    if not np.isfinite(vector).all():
        raise DataError(f"{location}: a number that is not finite; correct the line")
    return vector


_WORD_MARKERS: Final = ("▁", "##")
"""Prefixes of pieces that say whether the piece begins a word."""
_ROLE_NAMES: Final = ("eos", "bos", "unk", "mask")


@final
@dataclass(frozen=True, eq=False)
class VocabularyMapping:
    """For each piece of a new vocabulary, the old pieces whose mean it starts from.

    Attributes:
        new_ids: the new id of each link between a new piece and an old one; a new piece without links starts as the
            mean of `known_ids`.
        old_ids: the old id of each link.
        known_ids: the old ids that occur in texts.
        size: number of new pieces, the special ones included.
        num_kept: number of new pieces that the old vocabulary has too.
    """

    new_ids: Int[np.ndarray, " links"]
    old_ids: Int[np.ndarray, " links"]
    known_ids: Int[np.ndarray, " known"]
    size: int
    num_kept: int

    @classmethod
    def from_tokenizers(cls, old: Sequence[Tokenizer], new: Tokenizer) -> VocabularyMapping:
        """Build the mapping from old tokenizers to a new one.

        The old tokenizers share their ids but may split text differently.

        Special ids are mapped to those with the same role, and padding to padding.
        """
        table = _OldVocabulary(old)
        names, continues, roles = new.to_pieces(range(new.size)), new.get_continuation_mask(), _get_roles(new)
        parts_of_new, num_kept = [], 0
        for new_id, name in enumerate(names):
            old_id = table.find_special(roles[new_id], name) if new_id in roles else table.ids.get(name)
            num_kept += old_id is not None
            if old_id is None and new_id not in roles:
                parts_of_new.append(table.split_piece(name, continues=bool(continues[new_id])))
            else:
                parts_of_new.append([] if old_id is None else [old_id])
        rows = np.repeat(np.arange(new.size), [len(parts) for parts in parts_of_new])
        parts = np.array([part for parts in parts_of_new for part in parts], dtype=np.int64)
        return cls(rows, parts, np.array(sorted(table.ids.values()), dtype=np.int64), new.size, num_kept)

    @property
    def num_averaged(self) -> int:
        """Number of new pieces that start as the mean of their old parts."""
        return len(np.unique(self.new_ids)) - self.num_kept

    @property
    def num_without_parts(self) -> int:
        """Number of new pieces without any known part."""
        return self.size - self.num_kept - self.num_averaged

    def __str__(self) -> str:
        return (
            f"{self.num_kept:,} pieces kept, {self.num_averaged:,} started from their parts, "
            f"{self.num_without_parts:,} new"
        )

    def map_rows(self, table: Float[Tensor, "old ..."]) -> Float[Tensor, "new ..."]:
        """Return a table with a row for each new piece from a table with a row for each old piece; rows of kept
        pieces are copied exactly.
        """
        rows, parts = torch.from_numpy(self.new_ids), torch.from_numpy(self.old_ids)
        counts = torch.bincount(rows, minlength=self.size)
        sums = table.new_zeros(self.size, *table.shape[1:]).index_add(0, rows, table[parts])
        means = sums / counts.clamp(min=1).view(-1, *[1] * (table.dim() - 1))
        means[counts == 0] = table[torch.from_numpy(self.known_ids)].mean(0)
        return means


def is_same_vocabulary(first: Tokenizer, second: Tokenizer) -> bool:
    """Return whether the ids of two tokenizers mean the same, even if they split text differently."""
    if first is second:
        return True
    return first.size == second.size and first.to_pieces(range(first.size)) == second.to_pieces(range(second.size))


@final
class _OldVocabulary:
    """The old vocabulary of a model, for looking up pieces."""

    def __init__(self, tokenizers: Sequence[Tokenizer]) -> None:
        self._tokenizers = tokenizers
        first = tokenizers[0]
        self._special, roles = first.special, _get_roles(first)
        self._roleless_ids = {first.to_pieces([number])[0]: number for number, role in roles.items() if not role}
        numbers = [number for number in range(first.size) if number not in roles]
        names, continues = first.to_pieces(numbers), first.get_continuation_mask()
        self.ids = dict(zip(names, numbers, strict=True))
        self._names = dict(zip(numbers, names, strict=True))
        self._continuing_ids = {
            _strip_markers(name): number for name, number in zip(names, numbers, strict=True) if continues[number]
        }

    def find_special(self, role: str, name: str) -> int | None:
        """Return the old id of a special role; for an empty role, such as padding, the special id of the same name."""
        special_id: int | None = getattr(self._special, role) if role else self._roleless_ids.get(name)
        return special_id

    def split_piece(self, name: str, *, continues: bool) -> list[int]:
        """Return the known old ids that the new piece `name` is split into, by the tokenizer that needs the fewest;
        `continues` says whether the piece continues a word.
        """
        letters = _strip_markers(name)
        if not letters:
            return []
        candidates = [
            self._keep_known(tokenizer.encode(letters if continues else f" {letters}"), tokenizer)
            for tokenizer in self._tokenizers
        ]
        if continues:
            candidates = [self._to_continuing(ids) for ids in candidates]
        return min(filter(None, candidates), key=len, default=[])

    def _keep_known(self, ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
        """Keep only the ids of pieces that occur in texts, without the tokenizer's prefix."""
        return [number for number in ids[len(tokenizer.prefix_ids) :] if number in self._names]

    def _to_continuing(self, ids: list[int]) -> list[int]:
        """Return the ids with the first, which was read as the beginning of a word, replaced by the piece of the same
        letters inside a word.
        """
        if not ids:
            return ids
        letters = _strip_markers(self._names[ids[0]])
        return [self._continuing_ids.get(letters, ids[0]), *ids[1:]] if letters else ids[1:]


def _strip_markers(name: str) -> str:
    """Return a piece without the marker of its position in a word."""
    for marker in _WORD_MARKERS:
        name = name.removeprefix(marker)
    return name


def _get_roles(tokenizer: Tokenizer) -> Mapping[int, str]:
    """Return the role of each special id; empty for special ids without a role, such as padding."""
    special = tokenizer.special
    # an id with two meanings has the first: in GPT, the end of a text also begins the next one
    roles = {number: role for role in reversed(_ROLE_NAMES) if (number := getattr(special, role)) is not None}
    return dict.fromkeys(special.others, "") | roles
