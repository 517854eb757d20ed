"""Base classes of `heedful quickstart TASK`: write synthetic data and a recipe, and show what the trained model has
learned.

The module imports no torch until results are shown, so that help and errors appear quickly.
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
"""Print to the user without buffering."""


def print_command(*args: object) -> None:
    """Print a `heedful` command in shell syntax."""
    print_now(f"  {shlex.join(map(str, ('heedful', *args)))}")


@dataclass(frozen=True, kw_only=True)
class Demonstration(ABC):
    """Options and steps of one task's quickstart; the docstring is its help text.

    Abstract: a task with a quickstart names its final subclass in `Recipe.shown_by`.
    """

    output: Path
    """folder for the data, the recipe and the run"""
    steps: int
    """updates"""
    seed: int = 1
    """of the data and of training"""

    @abstractmethod
    def write_recipe(self) -> Path | None:
        """Write the data and the recipe and return the recipe's path; None if the options only ask for information.

        Raises:
            RecipeError: the options do not fit together.
            TrainingError: the folder cannot be written.
        """

    @abstractmethod
    def show_results(self, predictor: Any, run_folder: Path) -> None:
        """Print results of the trained model on unseen examples, and the paths of its pictures.

        Args:
            predictor: the trained model.
            run_folder: its run folder.
        """


@dataclass(frozen=True, kw_only=True)
class PhrasebookDemonstration(Demonstration):
    """A quickstart with sentences about dates, times and numbers that Babel and num2words write in two languages.

    Abstract: the task defines the model that learns from them and the default languages.
    """

    source: str
    """first language"""
    target: str
    """second language"""
    size: int = 20_000
    """training pairs"""

    @cached_property
    def sentence_pairs(self) -> Phrasebook:
        """The sentence pairs."""
        if self.source == self.target:
            raise RecipeError(f"--target: {self.target} is also --source; choose another")
        return build_phrasebook(self.source, self.target, seed=self.seed, size=self.size)

    @property
    def output_folder(self) -> Path:
        """Output folder, with the languages appended to its name."""
        return self.output.with_name(f"{self.output.name}-{self.source}-{self.target}")

    def build_tsv_files(self) -> dict[str, str]:
        """Return the contents of the TSV files of all parts, by path."""
        parts = {
            "train": self.sentence_pairs.train,
            "validation": self.sentence_pairs.validation,
            "test": self.sentence_pairs.test,
        }
        return {f"text/{name}.tsv": "".join(f"{a}\t{b}\n" for a, b in pairs) for name, pairs in parts.items()}


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write a demonstration's files, by their paths in its folder; raise `TrainingError` if that fails."""
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise TrainingError(f"{folder}: cannot be written ({error.strerror}); choose another --output") from None
