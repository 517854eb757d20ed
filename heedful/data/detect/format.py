"""Base classes of data formats: how a dataset is detected, read, split, and described in a recipe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

from heedful.data.detect.file_names import PARTS, DatasetPart
from heedful.data.detect.languages import LanguageInfo
from heedful.data.detect.sniff import FileSniff
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.data.detect.part_writers import PartWriter


@dataclass(frozen=True, slots=True)
class DatasetExample:
    """One example of a dataset as it stands in its file.

    Attributes:
        texts: the texts: one, two that are judged together, or a source and its target.
        labels: its labels: a class or a number, or the tags of its words; empty for plain text.
        line: number of its first line, counted from 1.
        raw: what a writer of this format needs to write it.
        split_keys: texts that decide the part it goes to, so that examples with the same key stay together; each key is
            finer than the one before, and is used if the one before cannot split the dataset.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    line: int
    raw: Any
    split_keys: tuple[str, ...]


@dataclass(frozen=True)
class CheckResult:
    """A problem that a check found.

    Attributes:
        message: what the problem is, and how often it occurs.
        examples: some of the examples, each with its location.
        remedy: what to do about it.
    """

    message: str
    examples: Sequence[str]
    remedy: str


class DataCheck(ABC):
    """Base of checks that look for one problem in the examples of a dataset.

    Abstract. The parts follow one another: test and validation first, then training.
    """

    @abstractmethod
    def add_example(self, example: DatasetExample, part: DatasetPart, location: str) -> None:
        """Process one example of a part; `location` is shown with it in results."""

    @abstractmethod
    def build_results(self, counts: Mapping[DatasetPart, int]) -> Iterator[CheckResult]:
        """Yield the problems found, after all examples; `counts` has the number of examples of each part."""


@dataclass(frozen=True, kw_only=True)
class DetectedDataset(ABC):
    """Base of datasets whose format was detected.

    Abstract: each format defines how it is read and written.

    Attributes:
        files: the files of each part.
        confidence: confidence in the detection, from 0 to 1.
        noun: what its examples are called, in the plural.
        joint_texts: whether the texts of an example are read as one sequence.
        is_parallel: whether the texts of an example are translations of each other.
        languages: languages of the texts.
        notes: further sentences for the user.
        conversion_reason: why the data must be written in another form; empty if that is not needed.
        label_noun: what labels are called, in the plural; empty if there are none.
        text_nouns: what each text of an example is called; if empty, what the example is called.
        truncates: whether long examples lose their end.
        min_training_examples: number of training examples below which training from scratch learns little.
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
        """Description of the format, such as "two files whose lines translate each other"."""

    @property
    @abstractmethod
    def learning_description(self) -> str:
        """Description of the learned task, such as "column 0 is translated into column 1"."""

    @abstractmethod
    def read_examples(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """Read all examples of a part, one at a time; raise `DataError` if a file is broken."""

    @abstractmethod
    def to_recipe_table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Return the recipe table of one part; `files` are the paths of its files as they are written in the recipe."""

    @abstractmethod
    def build_writer(self, folder: Path, part: DatasetPart, *, compress: bool) -> PartWriter:
        """Build the writer of the files of one part in `folder`, in the same format; `compress` adds gzip."""

    @abstractmethod
    def build_checks(self) -> Sequence[DataCheck]:
        """Return the checks for problems of this kind of data."""

    def format_location(self, part: DatasetPart, example: DatasetExample) -> str:
        """Return the file and the line of an example of a part, for messages."""
        return f"{self.get_first_file(part)}:{example.line}"

    def is_usable(self, example: DatasetExample) -> bool:
        """Return whether an example can be used for training; others are left out of written files."""
        return all(label.strip() for label in example.labels)

    def is_document_end(self, example: DatasetExample) -> bool:
        """Return whether this is the end of a document instead of an example."""
        return False

    def keep_documents_whole(self, *, blank_lines: bool, column: str | None) -> Self:
        """Return the dataset with documents, each of which stays in one part; raise `RecipeError` if the format does
        not mark them. Empty lines end documents if `blank_lines`, else `column` names the document of an example.

        Args:
            blank_lines: whether empty lines end documents.
            column: the column that names the document of an example; None if `blank_lines`.

        Raises:
            RecipeError: the format does not mark documents in this way.
        """
        option = "--documents" if blank_lines else "--document-column"
        raise RecipeError(f"{option}: {self.format_description}, which do not mark documents; leave it out")

    @property
    def document_options(self) -> Sequence[str]:
        """Command-line options with which written parts are read by documents again."""
        return ()

    @property
    def data_keys(self) -> Mapping[str, Any]:
        """Further keys of the recipe table [data]."""
        return {}

    @final
    def get_first_file(self, part: DatasetPart) -> Path:
        """Return the file to which the line numbers of a part refer."""
        return self.files[part][0]

    @final
    @property
    def present_parts(self) -> tuple[DatasetPart, ...]:
        """The parts that the dataset has."""
        return tuple(part for part in PARTS if part in self.files)


@dataclass(frozen=True)
class DataFormat(ABC):
    """Base of the data formats that a task can be trained on.

    Abstract: each defines how it is detected. A task lists its formats in `Recipe.forms`.
    """

    @abstractmethod
    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Yield the possible readings of the files in this format; nothing if they do not have it. `columns` are the
        columns to read, by name or index; empty if they are to be detected.

        Args:
            files: the files in the order in which the user named them.
            columns: the columns to read, by name or index; empty if they are to be detected.
        """

    def get_hint(self, files: Sequence[FileSniff]) -> str:
        """Return what to do with files that no recipe can be made from although the task could use such data; may
        be empty.
        """
        return ""


@final
@dataclass(frozen=True)
class HintOnlyFormat(DataFormat):
    """A format that heedful can train on but makes no recipe for; its hint says which recipe to copy."""

    matches: Callable[[FileSniff], bool] = field(repr=False)
    message: str

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Yield nothing."""
        return iter(())

    def get_hint(self, files: Sequence[FileSniff]) -> str:
        """Return the message if a file matches."""
        matching_file = next((file for file in files if self.matches(file)), None)
        return "" if matching_file is None else f"{matching_file.path}: {self.message}"


def find_single_files(files: Sequence[FileSniff]) -> dict[DatasetPart, FileSniff] | None:
    """Return the file of each part, training first; None if several files belong to one part."""
    files_by_part = group_by_part(files)
    if any(len(part_files) > 1 for part_files in files_by_part.values()):
        return None
    return {part: files_by_part[part][0] for part in PARTS if part in files_by_part}


def group_by_part(files: Sequence[FileSniff]) -> dict[DatasetPart, list[FileSniff]]:
    """Group files by the part in their names; files without one, and a single part, are for training."""
    files_by_part: dict[DatasetPart, list[FileSniff]] = {}
    for file in files:
        files_by_part.setdefault(file.name_info.part or "train", []).append(file)
    if "train" not in files_by_part and len(files_by_part) == 1:
        return {"train": next(iter(files_by_part.values()))}
    return files_by_part
