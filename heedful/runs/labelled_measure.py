"""A trained classifier, tagger or answerer measured on a part of its data, beside what ignores the texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from heedful.recipes.recipe import data_table
from heedful.runs.device import find_device
from heedful.runs.load import load, open_run, open_task
from heedful.tasks.benchmarks.definitions import Prediction
from heedful.tasks.exam import Exam
from heedful.tasks.fine_tuning import FineTuningRecipe
from heedful.tasks.kind import fine_tuning_kind, placed


@dataclass(frozen=True)
class Measured:
    """What a model reaches.

    Attributes:
        part: of its data.
        examples: how many were measured.
        metrics: the official ones of a benchmark task, or those that the data allow; 0 to 1.
        baseline: the same of always giving the most frequent answer of the training text.
        answer: that answer; empty for saying nothing, None where each example has its own.
    """

    part: str
    examples: int
    metrics: Mapping[str, float]
    baseline: Mapping[str, float]
    answer: Prediction | None


def measure_labelled(folder: Path, *, device: str | torch.device | None = None, say: Callable[[str], None]) -> Measured:
    """The metrics of a run on the test part, or on the validation part where there is no other.

    Every example counts: what is too long is cut or read in parts, as it is for users.

    Raises:
        DataError: a file is missing or cannot be read, or has no labels.
        RunError: the run is of another task, damaged or not trained yet.
    """
    run, place = open_run(folder), find_device(device)
    assert isinstance(run.recipe, FineTuningRecipe), f"{folder}: {run.recipe.task} has no labels"
    part, exam = examined(run.recipe, say=say)  # says which example lacks its label before any is read by the model
    metrics = exam.measured(exam.answers(load(folder, device=place)))
    return Measured(part, exam.size, metrics, exam.measured(exam.baseline), exam.constant)


def measure_tasks(
    folder: Path,
    *,
    task: str | None = None,
    device: str | torch.device | None = None,
    say: Callable[[str], None],
) -> Mapping[str, Measured]:
    """`measure_labelled` of all tasks of a run that has several, or of one of them.

    Raises:
        RunError: there is no such task.
    """
    run, place = open_task("multitask", folder), find_device(device)
    heads = load(folder, device=place)
    found = {}
    for name in heads.names if task is None else (task,):
        face = heads.head(name)
        part, exam = examined(run.recipe.single(name), say=say, table=data_table(name))
        metrics = exam.measured(exam.answers(face))
        found[name] = Measured(part, exam.size, metrics, exam.measured(exam.baseline), exam.constant)
    return found


def examined(
    recipe: FineTuningRecipe, *, say: Callable[[str], None] = lambda _: None, table: str = "data"
) -> tuple[str, Exam]:
    """What a model of the recipe is asked, and of which part of the data that is.

    Raises:
        DataError: a file is missing or cannot be read, or has no labels.
    """
    part = "validation" if recipe.data.test is None else "test"
    say(f"measuring on {table}.{part}")
    with placed(f"{table}.{part}"):
        return part, fine_tuning_kind(recipe).exam(recipe, part)
