"""Runs of one task side by side: they are asked the same, one after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, final

import torch

from heedful.errors import DataError, RecipeError
from heedful.metrics.bootstrap import Sampling
from heedful.recipes.recipe import EngineName, Recipe
from heedful.runs.device import find_device
from heedful.runs.examine import answers_of, exam_of, system
from heedful.runs.load import open_run
from heedful.store import MANIFEST, read_manifest
from heedful.tasks.exam import Asking, Exam
from heedful.tasks.kind import Run, kind_of
from heedful.tasks.report import Comparison, Report, System


@final
@dataclass
class Candidate:
    """A run that takes part, trained or still to be trained; its folder is opened once.

    Attributes:
        folder: of the run.
        recipe: a complete one; it counts instead of the one in the folder, which may have had other limits.
    """

    folder: Path
    recipe: Recipe
    _run: Run[Any, Any] | None = field(default=None, repr=False)
    _system: System | None = field(default=None, repr=False)

    @classmethod
    def trained(cls, folder: Path) -> Self:
        """The run in a folder; `RunError` where there is none, or nothing was trained yet."""
        run = open_run(folder)
        return cls(folder, run.recipe, run, system(run))

    def is_done(self) -> bool:
        """Whether there is nothing left to train."""
        if self._run is None and (self.folder / MANIFEST).exists() and read_manifest(self.folder).finished:
            run = open_run(self.folder)
            self._run = run if run.recipe == self.recipe else None
        return self._run is not None

    def opened(self) -> tuple[Run[Any, Any], System]:
        """The run, once it is trained, and what it says of itself."""
        if self._run is None:
            self._run = open_run(self.folder, self.recipe)
        if self._system is None:
            self._system = system(self._run)
        return self._run, self._system


def shared_exam(runs: Sequence[Candidate], asking: Asking) -> Exam:
    """What all runs are asked, by their own recipes; files that many recipes name are read once.

    Raises:
        DataError: a text cannot be read, or holds nothing to compare on.
        RecipeError: the runs have other tasks or texts, or something that is asked does not suit their task.
        RunError: the task has no exam.
    """
    first = runs[0]
    known: dict[str, Exam] = {}
    exams = []
    for run in runs:
        if run.recipe.task != first.recipe.task:
            raise RecipeError(
                f"{run.folder}: its task is {run.recipe.task}, and that of {first.folder} is {first.recipe.task}; name "
                "runs of one task"
            )
        datasets = run.recipe.datasets.items()
        key = json.dumps({name: data.model_dump(mode="json", exclude={"examples"}) for name, data in datasets})
        if key not in known:
            known[key] = _own_exam(run, asking)
        exams.append(known[key])
        try:
            known[key].require(run.recipe)
        except RecipeError as error:
            raise RecipeError(f"{run.folder}: {error}") from None
    for run, exam in zip(runs, exams, strict=True):
        if exam is not exams[0] and (how := exam.unlike(exams[0])) is not None:
            raise RecipeError(
                f"{run.folder}: {how} {first.folder}, so their scores cannot be compared; leave it out"
                + _or_name_one(run, ", or name one text for all")
            )
    return exams[0]


def compare(
    runs: Sequence[Candidate],
    exam: Exam,
    sampling: Sampling,
    *,
    device: str | torch.device | None,
    engine: EngineName | None = None,
    say: Callable[[str], None],
) -> Comparison:
    """Asks each run; the first is what the others are tested against.

    Raises:
        DataError: a text cannot be read by one of them.
        RunError: a run is damaged or nothing was trained yet.
    """
    kind = kind_of(runs[0].recipe)
    assert kind.reported is not None
    assert kind.compared is not None
    for remark in exam.remarks:
        say(remark)
    reports: list[Report] = []
    for number, each in enumerate(runs, 1):
        run, who = each.opened()
        say(f"{each.folder}: {exam.doing} ({number} of {len(runs)})")
        try:
            answers = answers_of(run, exam, device=device, engine=engine, say=say)
        except DataError as error:
            raise DataError(f"{each.folder}: {error}") from None
        reports.append(kind.reported(exam, who, answers, sampling, reports[0] if reports else None))
    return kind.compared(tuple(reports), str(find_device(device)), torch.get_num_threads())


def _own_exam(run: Candidate, asking: Asking) -> Exam:
    try:
        return exam_of(run.folder, run.recipe, asking)
    except DataError as error:
        if asking.given & {"text", "terms", "contrasts"}:  # it may be about what the user named
            raise
        raise DataError(f"{run.folder}: {error}{_or_name_one(run, '; or name the text')}") from None


def _or_name_one(run: Candidate, hint: str) -> str:
    named = "text" in kind_of(run.recipe).understood
    return f"{hint} with --source and --target, or --data" if named else ""
