"""From the pieces of one vocabulary to those of another: what is known of a piece that a model has never seen.

A piece that both have is the same piece. Any other one begins as the mean of the old pieces that it is cut into (Gee et
al. 2022, fast vocabulary transfer), and what has no known part as the mean of all pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.data.tokenizers import Tokenizer

_WORD_MARKERS: Final = ("▁", "##")
"""What may stand before the letters of a piece, to say whether it begins a word."""
_ROLE_NAMES: Final = ("eos", "bos", "unk", "mask")


@final
@dataclass(frozen=True, eq=False)
class VocabularyMapping:
    """Which old pieces each piece of a new vocabulary begins as the mean of.

    Attributes:
        new_ids: a number of a new piece for each of its parts; what has none begins as the mean of `known_ids`.
        old_ids: the old piece that each of these is.
        known_ids: the old pieces that texts are made of.
        size: how many new pieces there are, the special ones included.
        num_kept: how many of them the old vocabulary has too.
    """

    new_ids: Int[np.ndarray, " links"]
    old_ids: Int[np.ndarray, " links"]
    known_ids: Int[np.ndarray, " known"]
    size: int
    num_kept: int

    @classmethod
    def from_tokenizers(cls, old: Sequence[Tokenizer], new: Tokenizer) -> VocabularyMapping:
        """From vocabularies whose ids mean the same, of which each may cut text in its own way, to a new one.

        Special ids descend from those that mean the same, and padding from padding.
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
        """How many new pieces begin with what is known of their parts."""
        return len(np.unique(self.new_ids)) - self.num_kept

    @property
    def num_without_parts(self) -> int:
        """How many have no part that is known."""
        return self.size - self.num_kept - self.num_averaged

    def __str__(self) -> str:
        return f"{self.num_kept:,} pieces kept, {self.num_averaged:,} begun from their parts, {self.num_without_parts:,} new"

    def map_rows(self, table: Float[Tensor, "old ..."]) -> Float[Tensor, "new ..."]:
        """What has an entry for each old piece, with one for each new piece; kept ones are the same to the bit."""
        rows, parts = torch.from_numpy(self.new_ids), torch.from_numpy(self.old_ids)
        counts = torch.bincount(rows, minlength=self.size)
        sums = table.new_zeros(self.size, *table.shape[1:]).index_add(0, rows, table[parts])
        means = sums / counts.clamp(min=1).view(-1, *[1] * (table.dim() - 1))
        means[counts == 0] = table[torch.from_numpy(self.known_ids)].mean(0)
        return means


def is_same_vocabulary(first: Tokenizer, second: Tokenizer) -> bool:
    """Whether the ids of two vocabularies mean the same, though they may cut text in different ways."""
    if first is second:
        return True
    return first.size == second.size and first.to_pieces(range(first.size)) == second.to_pieces(range(second.size))


@final
class _OldVocabulary:
    """The pieces that a model knows."""

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
        """The id of a meaning; without one, as that of padding, the id of a name that has none either."""
        special_id: int | None = getattr(self._special, role) if role else self._roleless_ids.get(name)
        return special_id

    def split_piece(self, name: str, *, continues: bool) -> list[int]:
        """The old pieces that a new one is made of, as far as they are known; the shortest list there is."""
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
        return [number for number in ids[len(tokenizer.prefix_ids) :] if number in self._names]

    def _to_continuing(self, ids: list[int]) -> list[int]:
        """Pieces of the inside of a word, of which the first was read as if it began one."""
        if not ids:
            return ids
        letters = _strip_markers(self._names[ids[0]])
        return [self._continuing_ids.get(letters, ids[0]), *ids[1:]] if letters else ids[1:]


def _strip_markers(name: str) -> str:
    """A piece without what marks its place in a word."""
    for marker in _WORD_MARKERS:
        name = name.removeprefix(marker)
    return name


def _get_roles(tokenizer: Tokenizer) -> Mapping[int, str]:
    """What each id means that stands for no text; empty for those without a meaning, such as padding."""
    special = tokenizer.special
    # an id with two meanings has the first: GPT's end of a text is what begins the next one
    roles = {number: role for role in reversed(_ROLE_NAMES) if (number := getattr(special, role)) is not None}
    return dict.fromkeys(special.others, "") | roles
