"""Checks before a model is loaded: whether the search options fit the run's recipe, and whether files can be used."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.errors import DataError, RecipeError

if TYPE_CHECKING:
    from heedful.recipes.recipe import Recipe


def read_recipe_of_task(run: Path, tasks: Collection[str]) -> Recipe | None:
    """Return the recipe of a run if its task is one of `tasks`.

    Return None for another task, which loading reports, and for a Hugging Face folder, which has no recipe.

    Raises:
        RunError: there is no such run.
    """
    from heedful.foreign.folders import is_hugging_face_folder
    from heedful.runs.load import read_run_recipe

    if is_hugging_face_folder(run):
        return None
    recipe = read_run_recipe(run)
    return recipe if recipe.task in tasks else None


def check_number_of_outputs(config: Any, n_best: int, *, noun: str, alternative: str = "beam") -> None:
    """Raise `RecipeError` if several outputs are requested from greedy search.

    Args:
        config: generation config with the options of the command.
        n_best: number of outputs.
        noun: what an output is, for messages.
        alternative: kind of search that finds several.
    """
    if config.kind == "greedy" and n_best > 1:
        raise RecipeError(f"--n-best {n_best}: greedy search finds one {noun}; add --search {alternative}")


def check_coverage(config: Any) -> None:
    """Raise `RecipeError` for a coverage penalty, in commands that read no text."""
    if getattr(config, "coverage", 0):
        raise RecipeError("coverage: needs attention to a source text, which only translation has; leave it out")


def require_files(names: Iterable[str | Path], *, noun: str = "file") -> None:
    """Raise `DataError` for the first name of a file that does not exist; empty names are left to the reader."""
    for name in names:
        if str(name).strip() and not Path(name).exists():
            raise DataError(f"{name}: there is no such {noun}; check the path")
