"""Texts by their fingerprints, in bounded memory; and parts of a data set that depend on nothing but its texts."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, Generic, TypeVar, final

from heedful.errors import DataError

T = TypeVar("T")
_MOST: Final = 2000
"""Examples of a part that is split off, at most; more tell models apart no better and take longer to ask."""
_ENOUGH: Final = 500
_SHARE: Final = 10
"""Of this many examples a part gets one, at most."""


def normalised(text: str) -> str:
    """A text without case and without differences of white space, which do not make it another one."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def fingerprint(*texts: str) -> int:
    """64 bits of normalised texts: equal for equal ones, and else equal for one pair in 10^19."""
    joined = "\0".join(map(normalised, texts))
    return int.from_bytes(blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


@final
class Sketch(Generic[T]):
    """Values by fingerprints, of which only the smallest stay once there are too many.

    What stays is a fair sample of different texts, and complete: whatever has a fingerprint below `bound` is there.

    Args:
        limit: fingerprints that are kept, at most.
    """

    def __init__(self, limit: int = 2**19) -> None:
        self._limit = limit
        self._kept: dict[int, T] = {}
        self.bound = 2**64

    @property
    def share(self) -> float:
        """Of all texts that there were, how many stay."""
        return self.bound / 2**64

    def takes(self, key: int) -> bool:
        """Whether such a fingerprint is kept."""
        return key < self.bound

    def get(self, key: int) -> T | None:
        """Its value."""
        return self._kept.get(key)

    def put(self, key: int, value: T) -> None:
        """Keeps a value, unless its fingerprint is too large."""
        if key >= self.bound:
            return
        self._kept[key] = value
        while len(self._kept) > self._limit:  # halved, so that no order of texts leads to another bound
            self.bound //= 2
            self._kept = {key: value for key, value in self._kept.items() if key < self.bound}

    def __len__(self) -> int:
        return len(self._kept)

    def items(self) -> Iterator[tuple[int, T]]:
        """What is kept, smallest fingerprints first."""
        return iter(sorted(self._kept.items(), key=lambda item: item[0]))


def size_of_part(examples: int) -> int:
    """How many examples a part is to have that is split off so many: a twentieth, 500 at least and 2,000 at most, and
    never more than a tenth.
    """
    return max(1, min(_MOST, max(examples // (2 * _SHARE), _ENOUGH), examples // _SHARE))


@final
class Splitter:
    """Which texts go to which part, by their fingerprints alone: neither order nor anything else in the data matters.

    Args:
        limit: different texts that are remembered.
    """

    def __init__(self, limit: int = 2**16) -> None:
        self._sketches: list[Sketch[int]] = []
        self._limit = limit
        self._examples = 0

    def add(self, keys: Sequence[str]) -> None:
        """An example, by what its likes share with it, from coarse to fine."""
        self._examples += 1
        while len(self._sketches) < len(keys):
            self._sketches.append(Sketch(self._limit))
        for sketch, key in zip(self._sketches, keys, strict=False):
            mark = fingerprint(key)
            if sketch.takes(mark):
                sketch.put(mark, (sketch.get(mark) or 0) + 1)

    def split(self, sizes: Sequence[int | None], *, noun: str) -> Split:
        """The texts of some parts beside that for training.

        Args:
            sizes: examples of each part, at most; None for as many as `size_of_part` says.
            noun: what examples are called.

        Raises:
            DataError: there are not enough different texts.
        """
        wanted = [size_of_part(self._examples) if size is None else size for size in sizes]
        for level, sketch in enumerate(self._sketches):
            chosen = _chosen(sketch, wanted)
            if chosen is not None:
                return Split(level, chosen)
        raise DataError(
            f"{self._examples:,} {noun} of {len(self._sketches[-1]) if self._sketches else 0:,} different texts cannot "
            f"be split into {len(sizes) + 1} parts without the same text in two of them; give more data, or name the "
            "files of each part, such as train.tsv validation.tsv"
        )


@final
class Split:
    """The fingerprints of each part that was split off; what is in none is for training.

    Args:
        level: which of the keys of an example counts.
        parts: fingerprints of each part.
    """

    def __init__(self, level: int, parts: Sequence[frozenset[int]]) -> None:
        self._level = level
        self._parts = parts

    def part(self, keys: Sequence[str]) -> int | None:
        """The number of the part of an example; None for training."""
        mark = fingerprint(keys[self._level])
        return next((number for number, marks in enumerate(self._parts) if mark in marks), None)


def _chosen(sketch: Sketch[int], wanted: Sequence[int]) -> list[frozenset[int]] | None:
    """Fingerprints from the smallest on, as long as they fit; None where that leaves a part empty."""
    waiting = list(sketch.items())
    if len(waiting) < len(wanted) + 1:
        return None
    found = []
    for size in wanted:
        marks: set[int] = set()
        room = size
        for mark, count in waiting:
            if count <= room:
                marks.add(mark)
                room -= count
            if not room:
                break
        if not marks:
            return None
        waiting = [item for item in waiting if item[0] not in marks]
        found.append(frozenset(marks))
    return found if waiting or sketch.share < 1 else None


@final
class Sample:
    """Some of many texts, spread evenly over all of them.

    Args:
        size: texts that are kept, at most.
    """

    def __init__(self, size: int = 400) -> None:
        self._size = size
        self._step = 1
        self._count = 0
        self.texts: list[str] = []

    def add(self, text: str) -> None:
        """One of them."""
        if self._count % self._step == 0:
            self.texts.append(text)
            if len(self.texts) > self._size:
                self.texts = self.texts[::2]
                self._step *= 2
        self._count += 1


@final
class Histogram:
    """How often each whole number was seen."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, number: int) -> None:
        """One of them."""
        self._counts[number] += 1

    @property
    def size(self) -> int:
        """How many there were."""
        return self._counts.total()

    def above(self, number: int) -> int:
        """How many were larger."""
        return sum(count for value, count in self._counts.items() if value > number)

    def share(self, share: float) -> int:
        """The smallest number that so many are not above; 0 where there are none."""
        needed, seen = share * self.size, 0
        for value in sorted(self._counts):
            seen += self._counts[value]
            if seen >= needed:
                return value
        return 0
