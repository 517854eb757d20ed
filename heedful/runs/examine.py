"""Trained runs in the exam of their task, with what their folders say; what is measured where there is no exam."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
from torch import nn

from heedful.catalogue import DEFAULT, find, recipe_of
from heedful.errors import RecipeError, RunError
from heedful.models.size import imagined
from heedful.models.size import measure as measure_size
from heedful.recipes.recipe import EngineName, Recipe
from heedful.runs.adapted import sizes
from heedful.runs.checkpoints import best_step
from heedful.runs.device import find_device, keep_pages
from heedful.runs.learning_curve import has, records
from heedful.runs.load import trained
from heedful.runs.loop import freeze
from heedful.runs.prepare import open_corpus
from heedful.store import digest, read_manifest
from heedful.tasks.exam import Asking, Exam
from heedful.tasks.facts import Facts, Point
from heedful.tasks.kind import Kind, Run, kind_of
from heedful.tasks.report import System

_OPTIONS: Final[Mapping[str, str]] = {
    "text": "--source, --target and --data",
    "lowercase": "--lowercase",
    "tokenize": "--tokenize",
    "search": "what says how to search",
    "context": "--context",
    "stride": "--stride",
    "terms": "--terms",
    "contrasts": "--contrasts",
    "judge": "--judge",
    "paged": "--page",
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
    if asking.task is not None and "task" not in kind.understood:
        raise RecipeError(f"--task: {folder} has one task; leave it out")
    if asking.task is not None and asking.task not in recipe.datasets:
        raise RunError(f"{folder}: has no task {asking.task!r}; choose one of {', '.join(recipe.datasets)}")
    if strange := [_OPTIONS[name] for name in _OPTIONS if name in asking.given - kind.understood]:
        raise RecipeError(
            f"{folder}: its task is {recipe.task}, which is measured on data.test or data.validation and knows nothing "
            f"of {', '.join(strange)}; leave that out"
        )
    return kind.exam(recipe, asking)


def answers_of(run: Run[Any, Any], exam: Exam, *, device: str | torch.device | None = None, **how: Any) -> Any:
    """What the trained model of a run says of the examples; see `heedful.load` for the device and what else is given.

    Raises:
        DataError: it cannot read one of them.
        RunError: the run is damaged or not trained yet.
    """
    keep_pages()
    user = run.kind.face(run, trained(run, device=find_device(device), **how))
    return exam.answers(user, run.recipe)


def system(run: Run[Any, Any]) -> System:
    """The run as one that answers: what it is and how it learned, as its folder says without its weights.

    Raises:
        RunError: nothing was trained yet.
    """
    manifest = read_manifest(run.folder)
    step = best_step(run.folder, replace(manifest, best=None) if manifest.finished else manifest)
    lines = list(records(run.folder / "metrics.jsonl"))
    speeds = [record["labels_per_second"] for record in lines if has(record, "training", "labels_per_second")]
    timed = [record["seconds"] / 60 for record in lines if has(record, "validation", "seconds")]
    curve = (
        Point(record["step"], record["seconds"] / 60, record["loss"])
        for record in lines
        if has(record, "validation", "step", "seconds", "loss")
    )
    with imagined():
        model: nn.Module = run.build()
    freeze(model, run.recipe.training)
    adapted = sizes(run)
    facts = Facts(
        recipe=run.recipe,
        finished=manifest.finished,
        step=step,
        parameters=measure_size(model).parameters if adapted is None else adapted.whole,
        learned=(
            sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
            if adapted is None
            else adapted.learned
        ),
        vocabulary="".join(digest(run.folder / name)[:12] for name in run.vocabularies),
        minutes=timed[-1] if timed else None,
        tokens_per_second=median(speeds) if speeds else None,
        curve=tuple(curve),
    )
    return System(str(run.folder), facts)


def measure(
    run: Run[Any, Any],
    *,
    device: str | torch.device | None = None,
    engine: EngineName | None = None,
    say: Callable[[str], None],
    adapter: Path | None = None,
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
    model = trained(run, device=place, engine=engine, say=say, adapter=adapter)
    with torch.inference_mode():
        return part, task.evaluate(model)
