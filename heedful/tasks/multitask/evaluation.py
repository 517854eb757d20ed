"""Evaluator of a model with several tasks: the evaluators of all tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from heedful.metrics.metric import Metric
from heedful.recipes.recipe import Recipe
from heedful.tasks.label_evaluation import LabelEvaluator, LabelReport
from heedful.tasks.multitask.recipe import MultitaskRecipe
from heedful.tasks.predictor import MultiHeadPredictor
from heedful.tasks.report import EvaluatedSystem


@final
class MultitaskEvaluator(LabelEvaluator):
    """One evaluator for each task; metric names have the task's name as prefix."""

    def __init__(self, evaluators: Mapping[str, LabelEvaluator]) -> None:
        self.evaluators = dict(evaluators)
        members = list(evaluators.values())
        self.inputs = [(name, text) for name, evaluator in evaluators.items() for text in evaluator.inputs]
        self.reference_answers = [
            (name, label) for name, evaluator in evaluators.items() for label in evaluator.reference_answers
        ]
        self.data_description = " and ".join(dict.fromkeys(evaluator.data_description for evaluator in members))
        self.recipe_keys = tuple(key for evaluator in members for key in evaluator.recipe_keys)
        self.data_warnings = [
            f"{name}: {warning}" for name, evaluator in evaluators.items() for warning in evaluator.data_warnings
        ]
        self.size = sum(evaluator.size for evaluator in members)
        self.num_train_examples = sum(evaluator.num_train_examples for evaluator in members)
        self.constant_answer = {name: evaluator.constant_answer for name, evaluator in evaluators.items()}
        self.baseline_answers = {name: evaluator.baseline_answers for name, evaluator in evaluators.items()}
        self.main_metric = next(f"{name}/{evaluator.main_metric}" for name, evaluator in evaluators.items())

    @property
    def baseline_text(self) -> str:
        """Each baseline's answer, for people."""
        return ", ".join(exam.baseline_text for exam in self.evaluators.values())

    def count_train_examples(self, recipe: Recipe) -> int:
        """Return the number of training examples of all tasks."""
        assert isinstance(recipe, MultitaskRecipe)
        return sum(
            evaluator.count_train_examples(recipe.build_single_recipe(name))
            for name, evaluator in self.evaluators.items()
        )

    def check_recipe(self, recipe: Recipe) -> None:
        """Check the number of examples of each task."""
        assert isinstance(recipe, MultitaskRecipe)
        for name, evaluator in self.evaluators.items():
            evaluator.check_recipe(recipe.build_single_recipe(name))

    def predict(self, predictor: MultiHeadPredictor, recipe: Recipe) -> Mapping[str, Any]:
        """Return the answers of each task's head."""
        assert isinstance(recipe, MultitaskRecipe)
        return {
            name: evaluator.predict(predictor.head(name), recipe.build_single_recipe(name))
            for name, evaluator in self.evaluators.items()
        }

    def compute_metrics(self, answers: Mapping[str, Any]) -> Mapping[str, Metric]:
        """Compute the metrics of each task."""
        return {
            f"{name}/{metric_name}": metric
            for name, evaluator in self.evaluators.items()
            for metric_name, metric in evaluator.compute_metrics(answers[name]).items()
        }


@final
@dataclass(frozen=True, repr=False)
class MultitaskReport(LabelReport):
    """Metrics of a model in each of its tasks."""

    evaluator: MultitaskEvaluator

    def format_text(self) -> str:
        """Format a table for each task."""
        tables = (
            "\n".join((report.heading, report.format_table(), *report.warnings))
            for report in self._task_reports.values()
        )
        return f"{self.system.name}\n\n" + "\n\n".join(tables)

    def to_json(self) -> dict[str, Any]:
        """Return the report of each task as JSON data."""
        return {"tasks": {name: report.to_json() for name, report in self._task_reports.items()}}

    @cached_property
    def _task_reports(self) -> Mapping[str, LabelReport]:
        return {
            name: LabelReport(evaluator, EvaluatedSystem(name), self.answers[name], self.sampling)
            for name, evaluator in self.evaluator.evaluators.items()
        }
