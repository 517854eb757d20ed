"""What every form of data promises: to be recognised, read, split, and told in a recipe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from heedful.data.forms.glance import Glance
from heedful.data.forms.languages import Language
from heedful.data.forms.naming import PARTS, Part

if TYPE_CHECKING:
    from heedful.data.forms.faults import Fault
    from heedful.data.forms.saving import Saver


@dataclass(frozen=True, slots=True)
class Example:
    """Something to be learned from, as it stands in its file.

    Attributes:
        texts: what is read and written: one text, two that are judged together, or a source and its target.
        labels: what is said of it: a class or a number, the tags of its words; none for bare text.
        line: where it begins, counted from 1.
        raw: what its part is written with, in the way of its form.
        keys: what decides to which part it goes, so that its likes go with it; each finer than the one before, which
            is for data that the one before does not split.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    line: int
    raw: Any
    keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Found(ABC):
    """Files in which a form was recognised.

    Abstract: each form knows how it is read and written.

    Attributes:
        files: those of each part.
        certainty: how sure that is, from 0 to 1.
        noun: what its examples are called, in the plural.
        together: whether the texts of an example are read as one.
        parallel: whether the texts of an example say the same.
        languages: of its texts.
        notes: what else is to be told, in sentences.
        converted: why its parts are written anew in any case; empty where they need not be.
        said: what labels are called, in the plural; empty where there are none.
        called: what each text of an example is called; what the example is called where that is empty.
        bounded: whether examples that are too long lose something.
        few: examples for training below which little is learned from scratch.
    """

    files: Mapping[Part, Sequence[Path]]
    certainty: float
    noun: str = "texts"
    together: bool = True
    parallel: bool = False
    languages: Sequence[Language] = ()
    notes: Sequence[str] = ()
    converted: str = ""
    said: str = ""
    called: Sequence[str] = ()
    bounded: bool = True
    few: int = 1000

    @property
    @abstractmethod
    def seen(self) -> str:
        """What was recognised, such as "two files whose lines translate each other"."""

    @property
    @abstractmethod
    def taken(self) -> str:
        """What is learned from it, such as "column 0 is translated into column 1"."""

    @abstractmethod
    def examples(self, part: Part) -> Iterator[Example]:
        """All of a part, one at a time; `DataError` where a file is broken."""

    @abstractmethod
    def table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """The table of one part in a recipe, with its files as they are written there."""

    @abstractmethod
    def saver(self, folder: Path, part: Part, *, zipped: bool) -> Saver:
        """What writes one part in the same form."""

    @abstractmethod
    def faults(self) -> Sequence[Fault]:
        """What may spoil training and is looked for."""

    def place(self, part: Part, example: Example) -> str:
        """Where an example stands, in messages."""
        return f"{self.first(part)}:{example.line}"

    def usable(self, example: Example) -> bool:
        """Whether an example can be learned from; what cannot is left out of files that are written."""
        return all(label.strip() for label in example.labels)

    def parts_documents(self, example: Example) -> bool:
        """Whether an example is none, but ends a document."""
        return False

    @property
    def keys(self) -> Mapping[str, Any]:
        """Other keys of the table [data]."""
        return {}

    @final
    def first(self, part: Part) -> Path:
        """The file that places of a part are told in."""
        return self.files[part][0]

    @final
    @property
    def present(self) -> tuple[Part, ...]:
        """The parts that there are."""
        return tuple(part for part in PARTS if part in self.files)


@dataclass(frozen=True)
class Form(ABC):
    """A form of data that a task can be learned from.

    Abstract: each says how it is recognised. A task names its own in `Recipe.forms`.
    """

    @abstractmethod
    def find(self, files: Sequence[Glance], columns: Sequence[str]) -> Iterator[Found]:
        """The ways in which files may be of this form, none where they are not.

        Args:
            files: in the order in which they were named.
            columns: those that are to be read, by name or number; empty where they are to be found.
        """

    def hint(self, files: Sequence[Glance]) -> str:
        """What to do with files from which no recipe can be made, though a task is learned from such; perhaps empty."""
        return ""


@final
@dataclass(frozen=True)
class Pointer(Form):
    """Data that heedful learns from and makes no recipe for: it says which one to copy."""

    matches: Callable[[Glance], bool] = field(repr=False)
    sentence: str

    def find(self, files: Sequence[Glance], columns: Sequence[str]) -> Iterator[Found]:
        """None."""
        return iter(())

    def hint(self, files: Sequence[Glance]) -> str:
        """The sentence, where a file is such."""
        found = next((file for file in files if self.matches(file)), None)
        return "" if found is None else f"{found.path}: {self.sentence}"


def by_part(files: Sequence[Glance]) -> dict[Part, list[Glance]]:
    """Files by the part that their names say; what no name says is for training, and so is a single part."""
    found: dict[Part, list[Glance]] = {}
    for file in files:
        found.setdefault(file.named.part or "train", []).append(file)
    if "train" not in found and len(found) == 1:
        return {"train": next(iter(found.values()))}
    return found
