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

_MARKS: Final = ("▁", "##")
"""What may stand before the letters of a piece, to say whether it begins a word."""
_ROLES: Final = ("eos", "bos", "unk", "mask")


@final
@dataclass(frozen=True, eq=False)
class Descent:
    """Which old pieces each piece of a new vocabulary begins as the mean of.

    Attributes:
        rows: a number of a new piece for each of its parts; what has none begins as the mean of `known`.
        parts: the old piece that each of these is.
        known: the old pieces that texts are made of.
        size: how many new pieces there are, the special ones included.
        kept: how many of them the old vocabulary has too.
    """

    rows: Int[np.ndarray, " links"]
    parts: Int[np.ndarray, " links"]
    known: Int[np.ndarray, " known"]
    size: int
    kept: int

    @classmethod
    def between(cls, old: Sequence[Tokenizer], new: Tokenizer) -> Descent:
        """From vocabularies whose ids mean the same, of which each may cut text in its own way, to a new one.

        Special ids descend from those that mean the same, and padding from padding.
        """
        table = _Old(old)
        names, continues, roles = new.pieces(range(new.size)), new.continues(), _roles(new)
        found, kept = [], 0
        for number, name in enumerate(names):
            same = table.special(roles[number], name) if number in roles else table.ids.get(name)
            kept += same is not None
            if same is None and number not in roles:
                found.append(table.cut(name, continues=bool(continues[number])))
            else:
                found.append([] if same is None else [same])
        rows = np.repeat(np.arange(new.size), [len(parts) for parts in found])
        parts = np.array([part for parts in found for part in parts], dtype=np.int64)
        return cls(rows, parts, np.array(sorted(table.ids.values()), dtype=np.int64), new.size, kept)

    @property
    def begun(self) -> int:
        """How many new pieces begin with what is known of their parts."""
        return len(np.unique(self.rows)) - self.kept

    @property
    def fresh(self) -> int:
        """How many have no part that is known."""
        return self.size - self.kept - self.begun

    def __str__(self) -> str:
        return f"{self.kept:,} pieces kept, {self.begun:,} begun from their parts, {self.fresh:,} new"

    def carried(self, table: Float[Tensor, "old ..."]) -> Float[Tensor, "new ..."]:
        """What has an entry for each old piece, with one for each new piece; kept ones are the same to the bit."""
        rows, parts = torch.from_numpy(self.rows), torch.from_numpy(self.parts)
        counts = torch.bincount(rows, minlength=self.size)
        sums = table.new_zeros(self.size, *table.shape[1:]).index_add(0, rows, table[parts])
        means = sums / counts.clamp(min=1).view(-1, *[1] * (table.dim() - 1))
        means[counts == 0] = table[torch.from_numpy(self.known)].mean(0)
        return means


def alike(one: Tokenizer, other: Tokenizer) -> bool:
    """Whether the ids of two vocabularies mean the same, though they may cut text in different ways."""
    if one is other:
        return True
    return one.size == other.size and one.pieces(range(one.size)) == other.pieces(range(other.size))


@final
class _Old:
    """The pieces that a model knows."""

    def __init__(self, tokenizers: Sequence[Tokenizer]) -> None:
        self._tokenizers = tokenizers
        first = tokenizers[0]
        self._special, roles = first.special, _roles(first)
        self._silent = {first.pieces([number])[0]: number for number, role in roles.items() if not role}
        numbers = [number for number in range(first.size) if number not in roles]
        names, continues = first.pieces(numbers), first.continues()
        self.ids = dict(zip(names, numbers, strict=True))
        self._names = dict(zip(numbers, names, strict=True))
        self._inside = {
            _letters(name): number for name, number in zip(names, numbers, strict=True) if continues[number]
        }

    def special(self, role: str, name: str) -> int | None:
        """The id of a meaning; without one, as that of padding, the id of a name that has none either."""
        found: int | None = getattr(self._special, role) if role else self._silent.get(name)
        return found

    def cut(self, name: str, *, continues: bool) -> list[int]:
        """The old pieces that a new one is made of, as far as they are known; the shortest list there is."""
        letters = _letters(name)
        if not letters:
            return []
        found = [self._known(each.encode(letters if continues else f" {letters}"), each) for each in self._tokenizers]
        if continues:
            found = [self._continued(ids) for ids in found]
        return min(filter(None, found), key=len, default=[])

    def _known(self, ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
        return [number for number in ids[len(tokenizer.opening) :] if number in self._names]

    def _continued(self, ids: list[int]) -> list[int]:
        """Pieces of the inside of a word, of which the first was read as if it began one."""
        if not ids:
            return ids
        letters = _letters(self._names[ids[0]])
        return [self._inside.get(letters, ids[0]), *ids[1:]] if letters else ids[1:]


def _letters(name: str) -> str:
    """A piece without what marks its place in a word."""
    for mark in _MARKS:
        name = name.removeprefix(mark)
    return name


def _roles(tokenizer: Tokenizer) -> Mapping[int, str]:
    """What each id means that stands for no text; empty for those without a meaning, such as padding."""
    special = tokenizer.special
    # an id with two meanings has the first: GPT's end of a text is what begins the next one
    named = {number: role for role in reversed(_ROLES) if (number := getattr(special, role)) is not None}
    return dict.fromkeys(special.others, "") | named
