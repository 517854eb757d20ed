"""Trained runs in the exam of their task; and what is measured of a run whose task has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch

from heedful.catalogue import DEFAULT, find, recipe_of
from heedful.errors import RecipeError, RunError
from heedful.recipes.recipe import Recipe
from heedful.runs.device import find_device
from heedful.runs.facts import gather
from heedful.runs.load import trained
from heedful.runs.memory import keep_pages
from heedful.runs.prepare import open_corpus
from heedful.tasks.exam import Asking, Exam
from heedful.tasks.kind import Kind, Run, kind_of
from heedful.tasks.report import System

_OPTIONS: Final[Mapping[str, str]] = {
    "text": "--source, --target and --data",
    "lowercase": "--lowercase",
    "tokenize": "--tokenize",
    "search": "what says how to search",
    "context": "--context",
    "stride": "--stride",
}
"""How a user gives each part of an `Asking`."""


def kind_of_files() -> Kind[Any, Any]:
    """The task of answers in a file, where no run says which they belong to."""
    kind: Kind[Any, Any] = find(recipe_of(DEFAULT).made_by, about=f"task = {DEFAULT!r}")
    return kind


def exam_of(folder: Path, recipe: Recipe, asking: Asking) -> Exam:
    """What a run is asked.

    Raises:
        DataError: a file is missing, cannot be read, or holds nothing to ask.
        RecipeError: what a user wants says nothing to the task, or does not fit the recipe.
        RunError: the task has no exam, or there is no such task among those of the run.
    """
    kind = kind_of(recipe)
    if kind.reported is None:
        raise RunError(
            f"{folder}: its task is {recipe.task}, of which no two runs are asked the same; heedful evaluate measures "
            "one alone"
        )
    _require_understood(folder, recipe, asking, kind)
    return kind.exam(recipe, asking)


def _require_understood(folder: Path, recipe: Recipe, asking: Asking, kind: Kind[Any, Any]) -> None:
    if asking.task is not None and "task" not in kind.understood:
        raise RecipeError(f"--task: {folder} has one task; leave it out")
    if asking.task is not None and asking.task not in recipe.datasets:
        raise RunError(f"{folder}: has no task {asking.task!r}; choose one of {', '.join(recipe.datasets)}")
    if strange := [_OPTIONS[name] for name in _OPTIONS if name in asking.given - kind.understood]:
        raise RecipeError(
            f"{folder}: its task is {recipe.task}, which is measured on data.test or data.validation and knows nothing "
            f"of {', '.join(strange)}; leave that out"
        )


def answers_of(run: Run[Any, Any], exam: Exam, *, device: str | torch.device | None) -> Any:
    """What the trained model of a run says of the examples.

    Raises:
        DataError: it cannot read one of them.
        RunError: the run is damaged or not trained yet.
    """
    keep_pages()
    user = run.kind.face(run, trained(run, device=find_device(device)))
    return exam.answers(user, run.recipe)


def system(run: Run[Any, Any]) -> System:
    """The run as one that answers; `RunError` where nothing was trained yet."""
    return System(str(run.folder), gather(run))


def measure(
    run: Run[Any, Any], *, device: str | torch.device | None = None, say: Callable[[str], None]
) -> tuple[str, Mapping[str, float]]:
    """What training measures, on the test part, or on the validation part where there is no other.

    Returns:
        The name of the part, and the metrics.

    Raises:
        DataError: a file is missing or cannot be read.
        RunError: the run is damaged or not trained yet.
    """
    place = find_device(device)
    part = "validation" if any(data.test is None for data in run.recipe.datasets.values()) else "test"
    corpora = {name: open_corpus(run, part, say=say, name=name) for name in run.members}
    task = run.kind.whole(run, {name: (corpus, corpus) for name, corpus in corpora.items()}, device=place)
    model = trained(run, device=place)
    with torch.inference_mode():
        return part, task.evaluate(model)
