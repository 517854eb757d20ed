"""What every form of data promises: to be recognised, read, split, and told in a recipe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from heedful.data.detect.file_names import PARTS, DatasetPart
from heedful.data.detect.languages import LanguageInfo
from heedful.data.detect.sniff import FileSniff

if TYPE_CHECKING:
    from heedful.data.detect.checks import DataCheck
    from heedful.data.detect.part_writers import PartWriter


@dataclass(frozen=True, slots=True)
class DatasetExample:
    """Something to be learned from, as it stands in its file.

    Attributes:
        texts: what is read and written: one text, two that are judged together, or a source and its target.
        labels: what is said of it: a class or a number, the tags of its words; none for bare text.
        line: where it begins, counted from 1.
        raw: what its part is written with, in the way of its form.
        split_keys: what decides to which part it goes, so that its likes go with it; each finer than the one before, which
            is for data that the one before does not split.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    line: int
    raw: Any
    split_keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DetectedDataset(ABC):
    """Files in which a form was recognised.

    Abstract: each form knows how it is read and written.

    Attributes:
        files: those of each part.
        confidence: how sure that is, from 0 to 1.
        noun: what its examples are called, in the plural.
        joint_texts: whether the texts of an example are read as one.
        is_parallel: whether the texts of an example say the same.
        languages: of its texts.
        notes: what else is to be told, in sentences.
        conversion_reason: why its parts are written anew in any case; empty where they need not be.
        label_noun: what labels are called, in the plural; empty where there are none.
        text_nouns: what each text of an example is called; what the example is called where that is empty.
        truncates: whether examples that are too long lose something.
        min_training_examples: examples for training below which little is learned from scratch.
    """

    files: Mapping[DatasetPart, Sequence[Path]]
    confidence: float
    noun: str = "texts"
    joint_texts: bool = True
    is_parallel: bool = False
    languages: Sequence[LanguageInfo] = ()
    notes: Sequence[str] = ()
    conversion_reason: str = ""
    label_noun: str = ""
    text_nouns: Sequence[str] = ()
    truncates: bool = True
    min_training_examples: int = 1000

    @property
    @abstractmethod
    def format_description(self) -> str:
        """What was recognised, such as "two files whose lines translate each other"."""

    @property
    @abstractmethod
    def learning_description(self) -> str:
        """What is learned from it, such as "column 0 is translated into column 1"."""

    @abstractmethod
    def read_examples(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """All of a part, one at a time; `DataError` where a file is broken."""

    @abstractmethod
    def to_recipe_table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """The table of one part in a recipe, with its files as they are written there."""

    @abstractmethod
    def build_writer(self, folder: Path, part: DatasetPart, *, compress: bool) -> PartWriter:
        """What writes one part in the same form."""

    @abstractmethod
    def build_checks(self) -> Sequence[DataCheck]:
        """What may spoil training and is looked for."""

    def format_location(self, part: DatasetPart, example: DatasetExample) -> str:
        """Where an example stands, in messages."""
        return f"{self.get_first_file(part)}:{example.line}"

    def is_usable(self, example: DatasetExample) -> bool:
        """Whether an example can be learned from; what cannot is left out of files that are written."""
        return all(label.strip() for label in example.labels)

    def is_document_end(self, example: DatasetExample) -> bool:
        """Whether an example is none, but ends a document."""
        return False

    @property
    def data_keys(self) -> Mapping[str, Any]:
        """Other keys of the table [data]."""
        return {}

    @final
    def get_first_file(self, part: DatasetPart) -> Path:
        """The file that places of a part are told in."""
        return self.files[part][0]

    @final
    @property
    def present_parts(self) -> tuple[DatasetPart, ...]:
        """The parts that there are."""
        return tuple(part for part in PARTS if part in self.files)


@dataclass(frozen=True)
class DataFormat(ABC):
    """A form of data that a task can be learned from.

    Abstract: each says how it is recognised. A task names its own in `Recipe.forms`.
    """

    @abstractmethod
    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """The ways in which files may be of this form, none where they are not.

        Args:
            files: in the order in which they were named.
            columns: those that are to be read, by name or number; empty where they are to be found.
        """

    def get_hint(self, files: Sequence[FileSniff]) -> str:
        """What to do with files from which no recipe can be made, though a task is learned from such; perhaps empty."""
        return ""


@final
@dataclass(frozen=True)
class HintOnlyFormat(DataFormat):
    """Data that heedful learns from and makes no recipe for: it says which one to copy."""

    matches: Callable[[FileSniff], bool] = field(repr=False)
    message: str

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """None."""
        return iter(())

    def get_hint(self, files: Sequence[FileSniff]) -> str:
        """The sentence, where a file is such."""
        matching_file = next((file for file in files if self.matches(file)), None)
        return "" if matching_file is None else f"{matching_file.path}: {self.message}"


def group_by_part(files: Sequence[FileSniff]) -> dict[DatasetPart, list[FileSniff]]:
    """Files by the part that their names say; what no name says is for training, and so is a single part."""
    files_by_part: dict[DatasetPart, list[FileSniff]] = {}
    for file in files:
        files_by_part.setdefault(file.name_info.part or "train", []).append(file)
    if "train" not in files_by_part and len(files_by_part) == 1:
        return {"train": next(iter(files_by_part.values()))}
    return files_by_part
