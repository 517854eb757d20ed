"""Base classes of `heedful quickstart TASK`: write synthetic data and a recipe, and show what the trained model has
learned.

The module imports no torch until results are shown, so that help and errors appear quickly.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from heedful.data.phrasebook import Phrasebook, build_phrasebook
from heedful.errors import RecipeError, TrainingError
from heedful.recipes.toml import format_value

if TYPE_CHECKING:
    from heedful.inspection.record import InspectionRecord

print_now = partial(print, flush=True)
"""Print to the user without buffering."""


def print_command(*args: object) -> None:
    """Print a `heedful` command in shell syntax."""
    print_now(f"  {shlex.join(map(str, ('heedful', *args)))}")


@dataclass(frozen=True, kw_only=True)
class Demonstration(ABC):
    """Options and steps of one task's quickstart; the docstring is its help text.

    Abstract: a task with a quickstart names its final subclass in `Recipe.shown_by`.

    Attributes:
        recipe_template: the recipe, with the fields `recipe`, `run`, `seed`, `steps` and those of `recipe_fields`.
        own_data: noun for the data in the advice to write a recipe for one's own; empty for other advice.
    """

    recipe_template: ClassVar[str]
    own_data: ClassVar[str] = ""

    output: Path
    """folder for the data, the recipe and the run"""
    steps: int
    """number of updates"""
    seed: int = 1
    """random seed of the data and of training"""

    @property
    def output_folder(self) -> Path:
        """Folder for the data, the recipe and the run."""
        return self.output

    def write_recipe(self) -> Path | None:
        """Write the data and the recipe and return the recipe's path; None if the options only ask for information.

        Raises:
            RecipeError: the options do not fit together.
            TrainingError: the folder cannot be written.
        """
        recipe = self.write_sources()
        self.print_data()
        return recipe

    @final
    def write_sources(self) -> Path:
        """Write the data and the recipe, and return the path of the recipe.

        Raises:
            RecipeError: the options do not fit together.
            TrainingError: the folder cannot be written.
        """
        folder = self.output_folder
        recipe = folder / "recipe.toml"
        write_files(folder, self.iter_files())
        run = format_value(str(folder / "run"))
        content = self.recipe_template.format(
            recipe=shlex.quote(str(recipe)), run=run, seed=self.seed, steps=self.steps, **self.recipe_fields()
        )
        write_files(folder, {recipe.name: content}.items())
        return recipe

    def recipe_fields(self) -> Mapping[str, object]:
        """Return values of further fields of the recipe template, by name."""
        return {}

    @abstractmethod
    def iter_files(self) -> Iterable[tuple[str, str | bytes]]:
        """Yield the path in the output folder and the content of each file of the data.

        Raises:
            RecipeError: the options do not fit together.
        """

    def print_data(self) -> None:
        """Print something about the data that were written."""
        return

    @abstractmethod
    def show_results(self, predictor: Any, run_folder: Path) -> None:
        """Print results of the trained model on unseen examples, and the paths of its pictures.

        Args:
            predictor: the trained model.
            run_folder: its run folder.
        """

    def print_next_steps(self, shown: str, page: Path, *commands: Sequence[object]) -> None:
        """Print what a page shows (`shown`) with its path, and `heedful` commands to go on with, each as a list of
        arguments.
        """
        print_now(f"{shown}: {page}  (open it in a browser)\n\nwhere to go next")
        for command in commands:
            print_command(*command)
        if self.own_data:
            print_now(f"  heedful train RECIPE    with a recipe for your own {self.own_data}; begin with a copy of")
            print_now(f"                          {self.output_folder / 'recipe.toml'}")


@dataclass(frozen=True, kw_only=True)
class PhrasebookDemonstration(Demonstration):
    """A quickstart with sentences about dates, times and numbers that Babel and num2words write in two languages.

    Abstract: the task defines the model that learns from them and the default languages.

    Attributes:
        pair_noun: noun for the pairs.
    """

    pair_noun: ClassVar[str]

    source: str
    """first language"""
    target: str
    """second language"""
    size: int = 20_000
    """number of training pairs"""

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

    def iter_files(self) -> Iterable[tuple[str, str | bytes]]:
        """Iterate over the TSV files of all parts."""
        for part in ("train", "validation", "test"):
            pairs = getattr(self.sentence_pairs, part)
            yield f"text/{part}.tsv", "".join(f"{source}\t{target}\n" for source, target in pairs)

    def print_data(self) -> None:
        """Print the number of training pairs and the first three of them."""
        pairs = self.sentence_pairs.train
        print_now(f"{len(pairs):,} {self.pair_noun} such as")
        for source, target in pairs[:3]:
            print_now(f"  {source}\n  {target}\n")


def require_positive(**options: int) -> None:
    """Raise `RecipeError` if an option, given by name and value, is below 1."""
    for name, value in options.items():
        if value < 1:
            raise RecipeError(f"--{name}: {value}; must be at least 1")


def format_correction(text: str, *references: str) -> str:
    """Return a note with the first of the right answers `references` if the answer `text` is none of them; else an
    empty string.
    """
    return "" if text in references else f"   (should be: {references[0]})"


def write_viewer(record: InspectionRecord, page: Path) -> None:
    """Write a record as a web page to the file `page`."""
    from heedful.inspection.page import write_page
    from heedful.inspection.web import render_viewer

    write_page(render_viewer(record), page)


def write_files(folder: Path, files: Iterable[tuple[str, str | bytes]]) -> None:
    """Write files of a demonstration, by their paths in its folder; raise `TrainingError` if that fails."""
    try:
        for name, content in files:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise TrainingError(f"{folder}: cannot be written ({error.strerror}); choose another --output") from None
