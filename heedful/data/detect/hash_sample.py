"""Sample texts by their hashes in bounded memory, and split datasets by them, so that no text is in two parts."""

from __future__ import annotations

import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Final, Generic, TypeVar, final

from heedful.compression import is_compressed
from heedful.data.detect.file_names import PARTS, DatasetPart
from heedful.data.detect.format import DetectedDataset, PartWriter
from heedful.errors import DataError

T = TypeVar("T")
_MAX_PART_SIZE: Final = 2000
"""Largest size of a part that is split off; more examples hardly improve comparisons and take longer to evaluate."""
_PREFERRED_PART_SIZE: Final = 500
_FIRST_PLACES: Final = 2**10
"""Number of places in the table of a new `HashSet`, a power of two."""
_EXAMPLES_PER_PART_EXAMPLE: Final = 10
"""A part gets at most one of this many examples."""


def normalise_text(text: str) -> str:
    """Normalise case and white space, so that texts that differ only in them are equal."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def hash_texts(*texts: str) -> int:
    """Return a 64-bit hash of normalised texts; different texts collide with probability 10^-19."""
    joined_text = "\0".join(map(normalise_text, texts))
    return int.from_bytes(blake2b(joined_text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


@final
class HashSample(Generic[T]):
    """A dictionary from hashes to values that keeps only the smallest hashes once there are too many.

    The kept entries are a uniform sample of the different texts, and complete: every hash below `bound` that was added
    is kept.

    Args:
        limit: largest number of hashes that are kept.
    """

    def __init__(self, limit: int = 2**19) -> None:
        self._limit = limit
        self._values: dict[int, T] = {}
        self.bound = 2**64

    @property
    def sampling_rate(self) -> float:
        """Share of all different texts that is kept."""
        return self.bound / 2**64

    def should_keep(self, key: int) -> bool:
        """Return whether a hash is below the bound."""
        return key < self.bound

    def get_value(self, key: int) -> T | None:
        """Return the value of a hash; None if there is none."""
        return self._values.get(key)

    def set_value(self, key: int, value: T) -> None:
        """Set the value of the hash `key`, unless the hash is too large; drop the largest hashes when there are too
        many.
        """
        if key >= self.bound:
            return
        self._values[key] = value
        while len(self._values) > self._limit:  # halved, so that no order of texts leads to another bound
            self.bound //= 2
            self._values = {key: value for key, value in self._values.items() if key < self.bound}

    def __len__(self) -> int:
        return len(self._values)

    def get_items(self) -> Iterator[tuple[int, T]]:
        """Return the kept hashes and values, smallest hashes first."""
        return iter(sorted(self._values.items(), key=lambda item: item[0]))


@final
class HashSet:
    """A set of 64-bit hashes in 12 to 24 bytes for each, where a Python set needs about 90.

    It is a table of numbers: a hash is at the place that its last bits name, or in the next one that was free.
    """

    def __init__(self) -> None:
        self._table = array("Q", (0,)) * _FIRST_PLACES
        self._count = 0
        self._has_zero = False

    def __len__(self) -> int:
        return self._count + self._has_zero

    def add_hash(self, key: int) -> bool:
        """Add a hash, from 0 to 2^64 - 1; return whether it is new."""
        if key == 0:  # which marks places that are free
            is_new, self._has_zero = not self._has_zero, True
            return is_new
        if not self._insert_hash(key):
            return False
        self._count += 1
        if 3 * self._count > 2 * len(self._table):
            old_table, self._table = self._table, array("Q", (0,)) * (2 * len(self._table))
            for old_key in old_table:
                if old_key:
                    self._insert_hash(old_key)
        return True

    def _insert_hash(self, key: int) -> bool:
        """Insert a hash that is not 0 into the table; return whether it was not there."""
        table, last = self._table, len(self._table) - 1
        place = key & last
        while entry := table[place]:
            if entry == key:
                return False
            place = (place + 1) & last
        table[place] = key
        return True


def get_part_size(num_examples: int) -> int:
    """Return the default size of a part that is split off: a twentieth of the examples, at least 500 and at most
    2,000, and never more than a tenth.
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
    """Chooses the texts of each part by their hashes alone, so that the order of the data does not matter.

    Args:
        limit: number of different texts that are remembered.
    """

    def __init__(self, limit: int = 2**16) -> None:
        self._samples: list[HashSample[int]] = []
        self._limit = limit
        self._num_examples = 0

    def add_example(self, keys: Sequence[str]) -> None:
        """Add an example by its split keys, from coarse to fine."""
        self._num_examples += 1
        while len(self._samples) < len(keys):
            self._samples.append(HashSample(self._limit))
        for sample, key in zip(self._samples, keys, strict=False):
            key_hash = hash_texts(key)
            if sample.should_keep(key_hash):
                sample.set_value(key_hash, (sample.get_value(key_hash) or 0) + 1)

    def split(self, sizes: Sequence[int | None], *, noun: str) -> DatasetSplit:
        """Choose the texts of the parts that are split off from training. `sizes` has the largest number of examples of
        each part, None for the default; `noun` is what examples are called.

        Args:
            sizes: largest number of examples of each part; None for the result of `get_part_size`.
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
            f"{self._num_examples:,} {noun} of {len(self._samples[-1]) if self._samples else 0:,} different texts "
            "cannot "
            f"be split into {len(sizes) + 1} parts without the same text in two of them; give more data, or name the "
            "files of each part, such as train.tsv validation.tsv"
        )


@final
class DatasetSplit:
    """The hashes of each part that was split off; all other examples are for training.

    Args:
        level: index of the split key that is used.
        parts: hashes of each part.
    """

    def __init__(self, level: int, parts: Sequence[frozenset[int]]) -> None:
        self._level = level
        self._parts = parts

    def find_part(self, keys: Sequence[str]) -> int | None:
        """Return the index of the part of an example with these split keys; None for training."""
        key_hash = hash_texts(keys[self._level])
        return next((index for index, part_hashes in enumerate(self._parts) if key_hash in part_hashes), None)


def _select_hashes(sample: HashSample[int], part_sizes: Sequence[int]) -> list[frozenset[int]] | None:
    """Select hashes of a sample for each part, from the smallest on, while their numbers of examples fit into the size
    of the part; return None if a part would be empty.
    """
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
    """A sample of a stream of texts, spread evenly over the stream.

    Args:
        size: largest number of texts that are kept.
    """

    def __init__(self, size: int = 400) -> None:
        self._size = size
        self._step = 1
        self._count = 0
        self.texts: list[str] = []

    def add_text(self, text: str) -> None:
        """Add the next text of the stream."""
        if self._count % self._step == 0:
            self.texts.append(text)
            if len(self.texts) > self._size:
                self.texts = self.texts[::2]
                self._step *= 2
        self._count += 1


@final
class Histogram:
    """Counts of integers."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add_number(self, number: int) -> None:
        """Count one number."""
        self._counts[number] += 1

    @property
    def total(self) -> int:
        """Number of counted values."""
        return self._counts.total()

    def count_above(self, number: int) -> int:
        """Return how many values are larger than `number`."""
        return sum(count for value, count in self._counts.items() if value > number)

    def get_quantile(self, share: float) -> int:
        """Return the smallest number that at least a share `share` of the values does not exceed; 0 if there are
        none.
        """
        needed, cumulative = share * self.total, 0
        for value in sorted(self._counts):
            cumulative += self._counts[value]
            if cumulative >= needed:
                return value
        return 0


@dataclass(frozen=True)
class SplitPlan:
    """The files that a split writes.

    Attributes:
        new_parts: the parts that are split off from training.
        writers: the writer of each part; parts whose files stay as they are have none.
    """

    new_parts: Sequence[DatasetPart]
    writers: Mapping[DatasetPart, PartWriter]

    @property
    def paths(self) -> list[Path]:
        """All files that are written."""
        return [path for writer in self.writers.values() for path in writer.paths]

    def get_files(self, dataset: DetectedDataset) -> dict[DatasetPart, Sequence[Path]]:
        """Return the files of each part of the dataset after the split."""
        files = {
            part: self.writers[part].paths if part in self.writers else dataset.files.get(part, ()) for part in PARTS
        }
        return {part: paths for part, paths in files.items() if paths}


def build_default_plan(dataset: DetectedDataset, folder: Path) -> SplitPlan:
    """Return a plan to split validation off a dataset if it is missing, and also test if both are missing; files go to
    `folder`.
    """
    missing: list[DatasetPart] = [] if "validation" in dataset.files else ["validation"]
    if missing and "test" not in dataset.files:
        missing.append("test")
    return build_plan(dataset, folder, missing)


def build_plan(dataset: DetectedDataset, folder: Path, missing: Sequence[DatasetPart]) -> SplitPlan:
    """Return a plan to split the parts in `missing` off the training data of a dataset, with writers of files in
    `folder`. A dataset that must be converted is written whole.
    """
    written_parts = list(PARTS) if dataset.conversion_reason else ["train", *missing] if missing else []
    present = {*dataset.files, *missing}
    savers = {
        part: dataset.build_writer(
            folder,
            part,
            compress=is_compressed(dataset.get_first_file(part if part in dataset.files else "train")),
        )
        for part in PARTS
        if part in written_parts and part in present
    }
    return SplitPlan(missing, savers)


def compute_split(
    plan: SplitPlan,
    dataset: DetectedDataset,
    splitter: DatasetSplitter,
    sizes: Mapping[DatasetPart, int] = MappingProxyType({}),
) -> DatasetSplit | None:
    """Choose the texts that a plan splits off from a dataset, with a splitter that has seen its training examples; None
    if none are. `sizes` has the sizes that are not the default. Raise `DataError` if there are too few different texts.
    """
    return splitter.split([sizes.get(part) for part in plan.new_parts], noun=dataset.noun) if plan.new_parts else None


def write_parts(
    plan: SplitPlan,
    dataset: DetectedDataset,
    splitter: DatasetSplitter,
    counts: Mapping[DatasetPart, int],
    *,
    sizes: Mapping[DatasetPart, int] = MappingProxyType({}),
) -> dict[DatasetPart, int]:
    """Write the files of a plan, and return the number of examples of each part; `counts` has these numbers before the
    split.

    Args:
        plan: the files to write.
        dataset: the data.
        splitter: has seen the training examples.
        counts: number of examples of each part so far.
        sizes: sizes of the parts that are split off, if they are not the default.

    Raises:
        DataError: there are too few different texts to split.
    """
    counts = dict(counts)
    if not plan.writers:
        return counts
    split = compute_split(plan, dataset, splitter, sizes)
    for part in plan.writers:
        counts[part] = 0
    with ExitStack() as stack:
        open_writers = {part: stack.enter_context(writer) for part, writer in plan.writers.items()}
        for part in dataset.present_parts:
            if part not in open_writers:
                continue
            for example in dataset.read_examples(part):
                if not dataset.is_usable(example):
                    continue
                part_index = split.find_part(example.split_keys) if split is not None and part == "train" else None
                target_part = part if part_index is None else plan.new_parts[part_index]
                open_writers[target_part].write_example(example.raw)
                counts[target_part] += not dataset.is_document_end(example)
    return {part: counts[part] for part in PARTS if part in counts}
