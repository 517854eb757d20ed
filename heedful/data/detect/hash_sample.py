"""Texts by their fingerprints, in bounded memory; and parts of a data set that depend on nothing but its texts."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, Generic, TypeVar, final

from heedful.errors import DataError

T = TypeVar("T")
_MAX_PART_SIZE: Final = 2000
"""Examples of a part that is split off, at most; more tell models apart no better and take longer to ask."""
_PREFERRED_PART_SIZE: Final = 500
_EXAMPLES_PER_PART_EXAMPLE: Final = 10
"""Of this many examples a part gets one, at most."""


def normalise_text(text: str) -> str:
    """A text without case and without differences of white space, which do not make it another one."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def hash_texts(*texts: str) -> int:
    """64 bits of normalised texts: equal for equal ones, and else equal for one pair in 10^19."""
    joined_text = "\0".join(map(normalise_text, texts))
    return int.from_bytes(blake2b(joined_text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


@final
class HashSample(Generic[T]):
    """Values by fingerprints, of which only the smallest stay once there are too many.

    What stays is a fair sample of different texts, and complete: whatever has a fingerprint below `bound` is there.

    Args:
        limit: fingerprints that are kept, at most.
    """

    def __init__(self, limit: int = 2**19) -> None:
        self._limit = limit
        self._values: dict[int, T] = {}
        self.bound = 2**64

    @property
    def sampling_rate(self) -> float:
        """Of all texts that there were, how many stay."""
        return self.bound / 2**64

    def should_keep(self, key: int) -> bool:
        """Whether such a fingerprint is kept."""
        return key < self.bound

    def get_value(self, key: int) -> T | None:
        """Its value."""
        return self._values.get(key)

    def set_value(self, key: int, value: T) -> None:
        """Keeps a value, unless its fingerprint is too large."""
        if key >= self.bound:
            return
        self._values[key] = value
        while len(self._values) > self._limit:  # halved, so that no order of texts leads to another bound
            self.bound //= 2
            self._values = {key: value for key, value in self._values.items() if key < self.bound}

    def __len__(self) -> int:
        return len(self._values)

    def get_items(self) -> Iterator[tuple[int, T]]:
        """What is kept, smallest fingerprints first."""
        return iter(sorted(self._values.items(), key=lambda item: item[0]))


def get_part_size(num_examples: int) -> int:
    """How many examples a part is to have that is split off so many: a twentieth, 500 at least and 2,000 at most, and
    never more than a tenth.
    """
    return max(
        1,
        min(
            _MAX_PART_SIZE,
            max(num_examples // (2 * _EXAMPLES_PER_PART_EXAMPLE), _PREFERRED_PART_SIZE),
            num_examples // _EXAMPLES_PER_PART_EXAMPLE,
        ),
    )


@final
class DatasetSplitter:
    """Which texts go to which part, by their fingerprints alone: neither order nor anything else in the data matters.

    Args:
        limit: different texts that are remembered.
    """

    def __init__(self, limit: int = 2**16) -> None:
        self._samples: list[HashSample[int]] = []
        self._limit = limit
        self._num_examples = 0

    def add_example(self, keys: Sequence[str]) -> None:
        """An example, by what its likes share with it, from coarse to fine."""
        self._num_examples += 1
        while len(self._samples) < len(keys):
            self._samples.append(HashSample(self._limit))
        for sample, key in zip(self._samples, keys, strict=False):
            key_hash = hash_texts(key)
            if sample.should_keep(key_hash):
                sample.set_value(key_hash, (sample.get_value(key_hash) or 0) + 1)

    def split(self, sizes: Sequence[int | None], *, noun: str) -> DatasetSplit:
        """The texts of some parts beside that for training.

        Args:
            sizes: examples of each part, at most; None for as many as `get_part_size` says.
            noun: what examples are called.

        Raises:
            DataError: there are not enough different texts.
        """
        part_sizes = [get_part_size(self._num_examples) if size is None else size for size in sizes]
        for level, sample in enumerate(self._samples):
            part_hashes = _select_hashes(sample, part_sizes)
            if part_hashes is not None:
                return DatasetSplit(level, part_hashes)
        raise DataError(
            f"{self._num_examples:,} {noun} of {len(self._samples[-1]) if self._samples else 0:,} different texts cannot "
            f"be split into {len(sizes) + 1} parts without the same text in two of them; give more data, or name the "
            "files of each part, such as train.tsv validation.tsv"
        )


@final
class DatasetSplit:
    """The fingerprints of each part that was split off; what is in none is for training.

    Args:
        level: which of the keys of an example counts.
        parts: fingerprints of each part.
    """

    def __init__(self, level: int, parts: Sequence[frozenset[int]]) -> None:
        self._level = level
        self._parts = parts

    def find_part(self, keys: Sequence[str]) -> int | None:
        """The number of the part of an example; None for training."""
        key_hash = hash_texts(keys[self._level])
        return next((index for index, part_hashes in enumerate(self._parts) if key_hash in part_hashes), None)


def _select_hashes(sample: HashSample[int], part_sizes: Sequence[int]) -> list[frozenset[int]] | None:
    """Fingerprints from the smallest on, as long as they fit; None where that leaves a part empty."""
    remaining = list(sample.get_items())
    if len(remaining) < len(part_sizes) + 1:
        return None
    parts = []
    for size in part_sizes:
        part_hashes: set[int] = set()
        room = size
        for key_hash, count in remaining:
            if count <= room:
                part_hashes.add(key_hash)
                room -= count
            if not room:
                break
        if not part_hashes:
            return None
        remaining = [item for item in remaining if item[0] not in part_hashes]
        parts.append(frozenset(part_hashes))
    return parts if remaining or sample.sampling_rate < 1 else None


@final
class TextSample:
    """Some of many texts, spread evenly over all of them.

    Args:
        size: texts that are kept, at most.
    """

    def __init__(self, size: int = 400) -> None:
        self._size = size
        self._step = 1
        self._count = 0
        self.texts: list[str] = []

    def add_text(self, text: str) -> None:
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

    def add_number(self, number: int) -> None:
        """One of them."""
        self._counts[number] += 1

    @property
    def total(self) -> int:
        """How many there were."""
        return self._counts.total()

    def count_above(self, number: int) -> int:
        """How many were larger."""
        return sum(count for value, count in self._counts.items() if value > number)

    def get_quantile(self, share: float) -> int:
        """The smallest number that so many are not above; 0 where there are none."""
        needed, cumulative = share * self.total, 0
        for value in sorted(self._counts):
            cumulative += self._counts[value]
            if cumulative >= needed:
                return value
        return 0
