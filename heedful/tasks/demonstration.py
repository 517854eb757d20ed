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

from heedful.data.phrasebook import Phrasebook, build_phrasebook
from heedful.errors import RecipeError, TrainingError

print_now = partial(print, flush=True)
"""To the user, at once."""


def print_command(*args: object) -> None:
    """Says what one may call next, as a shell reads it."""
    print_now(f"  {shlex.join(map(str, ('heedful', *args)))}")


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
    def write_recipe(self) -> Path | None:
        """Makes the data, and the recipe whose file it returns; None where the user only wanted to be told something.

        Raises:
            RecipeError: the options do not fit together.
            TrainingError: the folder cannot be written.
        """

    @abstractmethod
    def show_results(self, predictor: Any, run_folder: Path) -> None:
        """Says what the trained model has learned, on examples that it never saw, and where its pictures are.

        Args:
            predictor: the trained model.
            run_folder: its folder.
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
    def sentence_pairs(self) -> Phrasebook:
        """The sentences."""
        if self.source == self.target:
            raise RecipeError(f"--target: {self.target} is --source too; choose another")
        return build_phrasebook(self.source, self.target, seed=self.seed, size=self.size)

    @property
    def output_folder(self) -> Path:
        """Where everything goes: the languages are appended."""
        return self.output.with_name(f"{self.output.name}-{self.source}-{self.target}")

    def build_tsv_files(self) -> dict[str, str]:
        """The parts as TSV, by their files."""
        parts = {
            "train": self.sentence_pairs.train,
            "validation": self.sentence_pairs.validation,
            "test": self.sentence_pairs.test,
        }
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
