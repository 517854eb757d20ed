"""Comparison of several runs of one task on the same test data."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, final

import torch

from heedful.atomic_io import MANIFEST, read_manifest
from heedful.errors import DataError, RecipeError
from heedful.metrics.metric import BootstrapOptions
from heedful.recipes.recipe import EngineName, Recipe
from heedful.runs.device import find_device
from heedful.runs.evaluate import build_run_evaluator, compute_answers, describe_system
from heedful.runs.load import open_run
from heedful.tasks.evaluation import Evaluator, EvaluatorOptions
from heedful.tasks.report import EvaluatedSystem, EvaluationReport, RunComparison
from heedful.tasks.task import Run, get_task


@final
@dataclass
class ComparedRun:
    """A run to compare, trained or still to be trained; its folder is opened once.

    Attributes:
        folder: the run folder.
        recipe: complete recipe; it is used instead of the one in the folder, which may have other limits.
    """

    folder: Path
    recipe: Recipe
    _run: Run[Any, Any] | None = field(default=None, repr=False)
    _system: EvaluatedSystem | None = field(default=None, repr=False)

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """Open a trained run; raise `RunError` if there is no run or nothing was trained yet."""
        run = open_run(folder)
        return cls(folder, run.recipe, run, describe_system(run))

    def is_finished(self) -> bool:
        """Whether the run is completely trained."""
        if self._run is None and (self.folder / MANIFEST).exists() and read_manifest(self.folder).finished:
            run = open_run(self.folder)
            self._run = run if run.recipe == self.recipe else None
        return self._run is not None

    def open_run(self) -> tuple[Run[Any, Any], EvaluatedSystem]:
        """Return the trained run and the description of it as a system."""
        if self._run is None:
            self._run = open_run(self.folder, self.recipe)
        if self._system is None:
            self._system = describe_system(self._run)
        return self._run, self._system


def build_shared_evaluator(runs: Sequence[ComparedRun], request: EvaluatorOptions) -> Evaluator:
    """Build the evaluator that all runs share, from their recipes; files named by several recipes are read once.

    Raises:
        DataError: a text cannot be read or is empty.
        RecipeError: the runs have different tasks or texts, or an option does not suit their task.
        RunError: the task has no evaluator.
    """
    first = runs[0]
    evaluators: dict[str, Evaluator] = {}
    all_evaluators = []
    for run in runs:
        if run.recipe.task != first.recipe.task:
            raise RecipeError(
                f"{run.folder}: its task is {run.recipe.task}, but that of {first.folder} is {first.recipe.task}; give "
                "runs of one task"
            )
        datasets = run.recipe.datasets.items()
        key = json.dumps({name: data.model_dump(mode="json", exclude={"examples"}) for name, data in datasets})
        if key not in evaluators:
            evaluators[key] = _build_evaluator(run, request)
        all_evaluators.append(evaluators[key])
        try:
            evaluators[key].check_recipe(run.recipe)
        except RecipeError as error:
            raise RecipeError(f"{run.folder}: {error}") from None
    for run, evaluator in zip(runs, all_evaluators, strict=True):
        if (
            evaluator is not all_evaluators[0]
            and (difference := evaluator.describe_difference(all_evaluators[0])) is not None
        ):
            raise RecipeError(
                f"{run.folder}: {difference} {first.folder}, so their scores cannot be compared; leave it out"
                + _add_text_hint(run, ", or give one text for all")
            )
    return all_evaluators[0]


def compare_runs(
    runs: Sequence[ComparedRun],
    evaluator: Evaluator,
    sampling: BootstrapOptions,
    *,
    device: str | torch.device | None,
    engine: EngineName | None = None,
    log: Callable[[str], None],
) -> RunComparison:
    """Evaluate each run and compare the others with the first.

    Raises:
        DataError: one of the runs cannot read a text.
        RunError: a run is damaged or not trained yet.
    """
    task = get_task(runs[0].recipe)
    assert task.report_class is not None
    assert task.comparison_class is not None
    for message in evaluator.data_warnings:
        log(message)
    reports: list[EvaluationReport] = []
    for number, candidate in enumerate(runs, 1):
        run, system = candidate.open_run()
        log(f"{candidate.folder}: {evaluator.progress_text} ({number} of {len(runs)})")
        try:
            answers = compute_answers(run, evaluator, device=device, engine=engine, say=log)
        except DataError as error:
            raise DataError(f"{candidate.folder}: {error}") from None
        reports.append(task.report_class(evaluator, system, answers, sampling, reports[0] if reports else None))
    return task.comparison_class(tuple(reports), str(find_device(device)), torch.get_num_threads())


def _build_evaluator(run: ComparedRun, request: EvaluatorOptions) -> Evaluator:
    """Build the evaluator of one run; name its folder in errors about its own data."""
    try:
        return build_run_evaluator(run.folder, run.recipe, request)
    except DataError as error:
        if request.changed_options & {"text", "terms", "contrasts"}:  # it may be about what the user named
            raise
        raise DataError(f"{run.folder}: {error}{_add_text_hint(run, '; or give the text')}") from None


def _add_text_hint(run: ComparedRun, hint: str) -> str:
    """Return the hint with the options for naming a text, if the task accepts one; otherwise an empty string."""
    accepts_text = "text" in get_task(run.recipe).supported_options
    return f"{hint} with --source and --target, or --data" if accepts_text else ""
