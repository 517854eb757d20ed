"""What `heedful quickstart TASK` does: examples are made up, a small model learns from them and shows what it learned.

Its module needs no torch until something is shown, so that help and mistakes are told at once.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from heedful.data.phrasebook import Phrasebook, phrasebook
from heedful.errors import RecipeError, TrainingError

say = partial(print, flush=True)
"""To the user, at once."""


def command(*words: object) -> None:
    """Says what one may call next, as a shell reads it."""
    say(f"  {shlex.join(map(str, ('heedful', *words)))}")


@dataclass(frozen=True, kw_only=True)
class Demonstration(ABC):
    """The options of one task's demonstration; the docstring is their help.

    Abstract: a task that has one names its final child in `Recipe.shown_by`.
    """

    output: Path
    """folder for the data, the recipe and the run"""
    steps: int
    """updates"""
    seed: int = 1
    """of the data and of training"""

    @abstractmethod
    def write(self) -> Path | None:
        """Makes the data, and the recipe whose file it returns; None where the user only wanted to be told something.

        Raises:
            RecipeError: the options do not fit together.
            TrainingError: the folder cannot be written.
        """

    @abstractmethod
    def show(self, face: Any, run: Path) -> None:
        """Says what the trained model has learned, on examples that it never saw, and where its pictures are.

        Args:
            face: the trained model.
            run: its folder.
        """


@dataclass(frozen=True, kw_only=True)
class PhrasebookDemonstration(Demonstration):
    """The same, of sentences about dates, times and numbers that Babel and num2words write in two languages.

    Abstract: what is learned of them belongs to the task, and so do the languages to begin with.
    """

    source: str
    """first language"""
    target: str
    """second language"""
    size: int = 20_000
    """training pairs"""

    @cached_property
    def book(self) -> Phrasebook:
        """The sentences."""
        if self.source == self.target:
            raise RecipeError(f"--target: {self.target} is --source too; choose another")
        return phrasebook(self.source, self.target, seed=self.seed, size=self.size)

    @property
    def folder(self) -> Path:
        """Where everything goes: the languages are appended."""
        return self.output.with_name(f"{self.output.name}-{self.source}-{self.target}")

    def texts(self) -> dict[str, str]:
        """The parts as TSV, by their files."""
        parts = {"train": self.book.train, "validation": self.book.validation, "test": self.book.test}
        return {f"text/{name}.tsv": "".join(f"{a}\t{b}\n" for a, b in pairs) for name, pairs in parts.items()}


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Files of a demonstration, by their paths in its folder; `TrainingError` where they cannot be written."""
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise TrainingError(f"{folder}: cannot be written ({error.strerror}); choose another --output") from None
