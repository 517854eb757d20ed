"""Evaluation of a trained run, and comparison of several runs of one task on the same test data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Final, Self, final

import torch
from torch import nn

from heedful.atomic_io import MANIFEST, compute_digest, read_manifest
from heedful.errors import DataError, RecipeError, RunError
from heedful.metrics.metric import BootstrapOptions
from heedful.models.model_size import build_without_memory
from heedful.models.model_size import measure_model as measure_size
from heedful.recipes.recipe import EngineName, Recipe, get_recipe_class
from heedful.registry import DEFAULT_TASK, load_object
from heedful.runs.adapter_runs import count_parameters
from heedful.runs.checkpoints import METRICS_FILE, get_best_step
from heedful.runs.device import find_device, tune_malloc
from heedful.runs.load import load_trained_model, open_run
from heedful.runs.metrics_log import has_numbers, read_records
from heedful.runs.prepare import open_corpus
from heedful.runs.trainer_factory import freeze_parameters
from heedful.tasks.comparison import RunComparison
from heedful.tasks.evaluation import Evaluator, EvaluatorOptions
from heedful.tasks.report import CurvePoint, EvaluatedSystem, EvaluationReport, RunSummary
from heedful.tasks.task import Run, Task, get_task
from heedful.tasks.word_baselines import WordBaseline

_REQUEST_OPTIONS: Final[Mapping[str, str]] = {
    "text": "--source, --target and --data",
    "lowercase": "--lowercase",
    "tokenize": "--tokenize",
    "search": "search options",
    "context": "--context",
    "stride": "--stride",
    "terms": "--terms",
    "contrasts": "--contrasts",
    "judge": "--judge",
    "paged": "--page",
}
"""Command-line option of each field of an evaluation request."""


def get_default_task() -> Task[Any, Any]:
    """Return the default task (translation), used for answers in a file that no run describes."""
    task: Task[Any, Any] = load_object(get_recipe_class(DEFAULT_TASK).made_by, context=f"task = {DEFAULT_TASK!r}")
    return task


def build_run_evaluator(folder: Path, recipe: Recipe, request: EvaluatorOptions) -> Evaluator:
    """Build the evaluator of a run's task with the options of a request; the errors name the run's folder.

    Raises:
        DataError: a file is missing, cannot be read, or is empty.
        RecipeError: an option has no meaning for the task, or does not fit the recipe.
        RunError: the task has no evaluator, or the run has no such task.
    """
    task = get_task(recipe)
    if task.report_class is None:
        raise RunError(
            f"{folder}: its task is {recipe.task}, whose runs do not get the same questions; heedful evaluate measures "
            "a single run"
        )
    if request.task is not None and "task" not in task.supported_options:
        raise RecipeError(f"--task: {folder} has one task; leave it out")
    if request.task is not None and request.task not in recipe.datasets:
        raise RunError(f"{folder}: has no task {request.task!r}; choose one of {', '.join(recipe.datasets)}")
    if unsupported := [
        _REQUEST_OPTIONS[name] for name in _REQUEST_OPTIONS if name in request.changed_options - task.supported_options
    ]:
        raise RecipeError(
            f"{folder}: its task is {recipe.task}, which is measured on data.test or data.validation and does not "
            f"support {', '.join(unsupported)}; leave that out"
        )
    return task.build_evaluator(recipe, request)


def compute_answers(
    run: Run[Any, Any], evaluator: Evaluator, *, device: str | torch.device | None = None, **load_kwargs: Any
) -> Any:
    """Compute the answers of a run's trained model to the examples of an evaluator, in the form that
    `evaluator.predict` returns; `load_kwargs` holds further arguments of `heedful.load`.

    Raises:
        DataError: it cannot read one of them.
        RunError: the run is damaged or not trained yet.
    """
    tune_malloc()
    predictor = run.task.build_predictor(run, load_trained_model(run, device=find_device(device), **load_kwargs))
    return evaluator.predict(predictor, run.recipe)


def describe_system(run: Run[Any, Any]) -> EvaluatedSystem:
    """Describe a run as a system to be compared: its size, vocabulary and learning curve, read from its folder without
    its weights.

    Raises:
        RunError: nothing was trained yet.
    """
    manifest = read_manifest(run.folder)
    step = get_best_step(run.folder, replace(manifest, best=None) if manifest.finished else manifest)
    records_read = list(read_records(run.folder / METRICS_FILE))
    speeds = [
        record["labels_per_second"] for record in records_read if has_numbers(record, "training", "labels_per_second")
    ]
    validation_minutes = [
        record["seconds"] / 60 for record in records_read if has_numbers(record, "validation", "seconds")
    ]
    curve = (
        CurvePoint(record["step"], record["seconds"] / 60, record["loss"])
        for record in records_read
        if has_numbers(record, "validation", "step", "seconds", "loss")
    )
    with build_without_memory():
        model: nn.Module = run.build_model()
    freeze_parameters(model, run.recipe.training)
    counts = count_parameters(run)
    facts = RunSummary(
        recipe=run.recipe,
        finished=manifest.finished,
        step=step,
        parameters=measure_size(model).num_parameters if counts is None else counts.total,
        trainable_parameters=(
            sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
            if counts is None
            else counts.trainable
        ),
        vocabulary="".join(compute_digest(run.folder / name)[:12] for name in run.vocabularies),
        minutes=validation_minutes[-1] if validation_minutes else None,
        tokens_per_second=median(speeds) if speeds else None,
        curve=tuple(curve),
    )
    return EvaluatedSystem(str(run.folder), facts)


def evaluate_run(
    run: Run[Any, Any],
    *,
    device: str | torch.device | None = None,
    engine: EngineName | None = None,
    say: Callable[[str], None],
    adapter: Path | None = None,
) -> tuple[str, Mapping[str, float]]:
    """Evaluate a run with the metrics of its training, on the test part or, if there is none, on the validation part.
    `engine` and `adapter` are those of `heedful.load`; `say` receives messages.

    Returns:
        The name of the part, and the metrics.

    Raises:
        DataError: a file is missing or cannot be read.
        RunError: the run is damaged or not trained yet.
    """
    target_device = find_device(device)
    part = "validation" if any(data.test is None for data in run.recipe.datasets.values()) else "test"
    corpora = {name: open_corpus(run, part, log=say, name=name) for name in run.member_runs}
    objective = run.task.build_joint_objective(
        run, {name: (corpus, corpus) for name, corpus in corpora.items()}, device=target_device
    )
    model = load_trained_model(run, device=target_device, engine=engine, say=say, adapter=adapter)
    with torch.inference_mode():
        return part, objective.evaluate(model)


BASELINE_FILE: Final = "word-baseline.json"
"""File in the run folder with the baseline of word counts on the validation data."""


def measure_word_baseline(run: Run[Any, Any], part: str, *, log: Callable[[str], None]) -> WordBaseline | None:
    """Measure what a model of word counts reaches on a part of a run's data; None if the task has no such model.

    A baseline must not end the command that shows it: whatever prevents it is a line for `log`.
    """
    try:
        return run.task.measure_word_baseline(run, part)
    except Exception as error:
        log(f"no baseline of word counts: {error or type(error).__name__} (--baseline none leaves it out)")
        return None


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
        """Return the trained run and its description as a system to compare; open the folder only at the first call."""
        if self._run is None:
            self._run = open_run(self.folder, self.recipe)
        if self._system is None:
            self._system = describe_system(self._run)
        return self._run, self._system


def build_shared_evaluator(runs: Sequence[ComparedRun], request: EvaluatorOptions) -> Evaluator:
    """Build the evaluator that all runs share, from their recipes and the options of a request; files named by several
    recipes are read once.

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
    """Evaluate each run on the examples of the evaluator and compare the others with the first; `sampling` sets the
    bootstrap test, `engine` is that of `heedful.load`, and `log` receives progress.

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
    """Build the evaluator of one run with the options of a request. Errors about the run's own data name its folder."""
    try:
        return build_run_evaluator(run.folder, run.recipe, request)
    except DataError as error:
        if request.changed_options & {
            "text",
            "terms",
            "contrasts",
        }:  # the error may be about a file that the user named
            raise
        raise DataError(f"{run.folder}: {error}{_add_text_hint(run, '; or give the text')}") from None


def _add_text_hint(run: ComparedRun, hint: str) -> str:
    """Return the hint with the options for naming a text, if the task accepts one; otherwise an empty string."""
    accepts_text = "text" in get_task(run.recipe).supported_options
    return f"{hint} with --source and --target, or --data" if accepts_text else ""
