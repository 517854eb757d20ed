"""What a model of several tasks is asked: what each of its tasks would be alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from heedful.metrics.metric import Metric
from heedful.recipes.recipe import Recipe
from heedful.tasks.heads import Heads
from heedful.tasks.labelled import LabelledExam, LabelledReport
from heedful.tasks.multitask.recipe import MultitaskRecipe
from heedful.tasks.report import System


@final
class TasksExam(LabelledExam):
    """An exam for each task; a metric's name has that of its task before it."""

    def __init__(self, exams: Mapping[str, LabelledExam]) -> None:
        self.exams = dict(exams)
        found = list(exams.values())
        self.asked = [(name, text) for name, exam in exams.items() for text in exam.asked]
        self.right = [(name, label) for name, exam in exams.items() for label in exam.right]
        self.text = " and ".join(dict.fromkeys(exam.text for exam in found))
        self.places = tuple(place for exam in found for place in exam.places)
        self.remarks = [f"{name}: {remark}" for name, exam in exams.items() for remark in exam.remarks]
        self.size = sum(exam.size for exam in found)
        self.total = sum(exam.total for exam in found)
        self.constant = {name: exam.constant for name, exam in exams.items()}
        self.baseline = {name: exam.baseline for name, exam in exams.items()}
        self.main = next(f"{name}/{exam.main}" for name, exam in exams.items())

    @property
    def always(self) -> str:
        """What each baseline says."""
        return ", ".join(exam.always for exam in self.exams.values())

    def examples_of(self, recipe: Recipe) -> int:
        """Of all tasks."""
        assert isinstance(recipe, MultitaskRecipe)
        return sum(exam.examples_of(recipe.single(name)) for name, exam in self.exams.items())

    def require(self, recipe: Recipe) -> None:
        """Of each task."""
        assert isinstance(recipe, MultitaskRecipe)
        for name, exam in self.exams.items():
            exam.require(recipe.single(name))

    def answers(self, user: Heads, recipe: Recipe) -> Mapping[str, Any]:
        """Of each task."""
        assert isinstance(recipe, MultitaskRecipe)
        return {name: exam.answers(user.head(name), recipe.single(name)) for name, exam in self.exams.items()}

    def metrics(self, answers: Mapping[str, Any]) -> Mapping[str, Metric]:
        """Of each task."""
        return {
            f"{name}/{each}": metric
            for name, exam in self.exams.items()
            for each, metric in exam.metrics(answers[name]).items()
        }


@final
@dataclass(frozen=True, repr=False)
class TasksReport(LabelledReport):
    """What a model reaches in each of its tasks."""

    exam: TasksExam

    def text(self) -> str:
        """A table for each task."""
        tables = ("\n".join((each.heading, each.table(), *each.warnings)) for each in self._members.values())
        return f"{self.system.name}\n\n" + "\n\n".join(tables)

    def content(self) -> dict[str, Any]:
        """Each task."""
        return {"tasks": {name: report.content() for name, report in self._members.items()}}

    @cached_property
    def _members(self) -> Mapping[str, LabelledReport]:
        return {
            name: LabelledReport(exam, System(name), self.answers[name], self.sampling)
            for name, exam in self.exam.exams.items()
        }
