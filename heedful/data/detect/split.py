"""Split a dataset without validation or test part into parts, so that no text is in two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from heedful.data.detect.file_names import PARTS, DatasetPart
from heedful.data.detect.format import DetectedDataset
from heedful.data.detect.hash_sample import DatasetSplit, DatasetSplitter
from heedful.data.detect.part_writers import PartWriter
from heedful.data.detect.sniff import is_gzipped


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
            folder, part, compress=is_gzipped(dataset.get_first_file(part if part in dataset.files else "train"))
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
