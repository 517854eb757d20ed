"""Base classes of data formats: how a dataset is detected, read, split, written, and described in a recipe."""

from __future__ import annotations

import csv
import gzip
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, final

from heedful.data.detect.file_names import PARTS, DatasetPart
from heedful.data.detect.languages import LanguageInfo
from heedful.data.detect.sniff import FileSniff
from heedful.errors import RecipeError
from heedful.files import replace_durably


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

    def measure(self, texts: Sequence[str], labels: Sequence[str]) -> Any:
        """Return what the check can say of one example by itself, perhaps in another process; None by default, for
        checks that compare examples.
        """
        return None

    def measure_batch(self, examples: Sequence[tuple[Sequence[str], Sequence[str]]]) -> Sequence[Any]:
        """Return what `measure` returns for each example, given as its texts and its labels. Subclasses may override
        this with a faster implementation.
        """
        return [self.measure(*example) for example in examples]

    def add_measured(self, example: DatasetExample, part: DatasetPart, location: str, *, value: Any) -> None:
        """Process one example as `add_example` does, with the value that `measure` returned for it."""
        self.add_example(example, part, location)

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
        min_core_minutes: minutes on one idle core below which training from scratch learns little; 0 if unknown.
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
    min_core_minutes: float = 0.0

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


class PartWriter(ABC):
    """Base of writers of one part; the files get their names when everything is written.

    Abstract: each format writes its examples.

    Args:
        paths: the files.
    """

    def __init__(self, *paths: Path) -> None:
        self.paths = paths
        self._temporary_paths = [path.with_name(f".{path.name}.new") for path in paths]
        self._streams: list[IO[str]] = []

    @abstractmethod
    def write_example(self, raw: Any) -> None:
        """Write one example, given as the `raw` of its `DatasetExample`."""

    def write_header(self) -> None:
        """Write what stands before the first example; nothing by default."""
        return

    def write_footer(self) -> None:
        """Write what stands after the last example; nothing by default."""
        return

    @final
    def write_text(self, text: str, *, file_index: int = 0) -> None:
        """Write a text to one of the files."""
        self._streams[file_index].write(text)

    @final
    def __enter__(self) -> Self:
        for path, temporary in zip(self.paths, self._temporary_paths, strict=True):
            if path.suffix == ".gz":  # without the time, so that the same data give the same file
                gzip_file = gzip.GzipFile(
                    filename="", fileobj=temporary.open("wb"), mode="wb", compresslevel=6, mtime=0
                )
                self._streams.append(io.TextIOWrapper(gzip_file, encoding="utf-8", newline=""))
            else:
                self._streams.append(temporary.open("w", encoding="utf-8", newline=""))
        self.write_header()
        return self

    @final
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.write_footer()
        for stream in self._streams:
            raw_file = getattr(getattr(stream, "buffer", None), "fileobj", None)
            stream.close()
            if raw_file is not None:
                raw_file.close()
        for path, temporary in zip(self.paths, self._temporary_paths, strict=True):
            if kind is None:
                replace_durably(temporary, path)
            else:
                temporary.unlink(missing_ok=True)


@final
class LinePartWriter(PartWriter):
    """Writes a line to each of the files for every example; `header` is the first line."""

    def __init__(self, *paths: Path, header: str | None = None) -> None:
        super().__init__(*paths)
        self._header = header

    def write_header(self) -> None:
        """Write the header line."""
        if self._header is not None:
            self.write_text(f"{self._header}\n")

    def write_example(self, raw: Any) -> None:
        """Write one line to each file."""
        lines: Sequence[str] = (raw,) if isinstance(raw, str) else raw
        for index, line in enumerate(lines):
            self.write_text(f"{line}\n", file_index=index)


@final
class CsvPartWriter(PartWriter):
    """Writes a CSV row for every example."""

    def __init__(self, path: Path, *, header: Sequence[str] | None) -> None:
        super().__init__(path)
        self._header = header

    def write_header(self) -> None:
        """Write the header row."""
        self._csv_writer = csv.writer(self._streams[0], lineterminator="\n")
        if self._header is not None:
            self._csv_writer.writerow(self._header)

    def write_example(self, raw: Any) -> None:
        """Write one row."""
        self._csv_writer.writerow(raw)


@final
class JsonlPartWriter(PartWriter):
    """Writes a JSON object on a line for every example."""

    def write_example(self, raw: Any) -> None:
        """Write one object."""
        self.write_text(json.dumps(raw, ensure_ascii=False) + "\n")


@final
class SquadPartWriter(PartWriter):
    """Writes SQuAD's JSON: paragraphs with their questions."""

    def write_header(self) -> None:
        """Prepare the collection of questions; nothing is written yet."""
        self._paragraphs: dict[tuple[str, str], list[Any]] = {}

    def write_example(self, raw: Any) -> None:
        """Collect one question, given as title of the article, context, and question."""
        title, context, question = raw
        self._paragraphs.setdefault((title, context), []).append(question)

    def write_footer(self) -> None:
        """Write all collected questions as one JSON object."""
        articles: dict[str, list[Any]] = {}
        for (title, context), questions in self._paragraphs.items():
            articles.setdefault(title, []).append({"context": context, "qas": questions})
        data = [{"title": title, "paragraphs": paragraphs} for title, paragraphs in articles.items()]
        self.write_text(json.dumps({"version": "1.1", "data": data}, ensure_ascii=False) + "\n")
