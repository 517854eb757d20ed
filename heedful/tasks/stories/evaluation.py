"""Evaluation of story question answering, and of attention to the supporting facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast, final

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.metrics.classification import accuracy
from heedful.metrics.metric import MeanMetric, Metric, RatioMetric
from heedful.tasks.label_evaluation import LabelEvaluator, LabelReport
from heedful.tasks.stories.data import StoryQuestion
from heedful.tasks.stories.predictor import StoryAnswer, StoryPredictor

MAX_ERROR: Final = 0.05
"""A task with more errors is failed (Weston et al. 2015)."""


@final
@dataclass(frozen=True)
class FailedTasks(Metric):
    """Number of tasks with an error above 5 %."""

    errors: tuple[RatioMetric, ...]

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return self.errors[0].num_examples

    def compute_scores(self, weights: Float[np.ndarray, "samples N"]) -> Float[np.ndarray, " samples"]:
        """Count the failed tasks for each resampling."""
        return np.asarray(
            np.sum([error.compute_scores(weights) > MAX_ERROR for error in self.errors], axis=0), dtype=np.float64
        )


def build_story_evaluator(questions: Sequence[StoryQuestion], *, train: Iterable[StoryQuestion]) -> LabelEvaluator:
    """Build the evaluator of questions about stories, resampled by questions; the training questions `train` give the
    most frequent answer.

    It measures the mean error of tasks, each weighted equally, the number of failed tasks, the accuracy of all answers,
    and `facts`: the share of questions whose supporting facts are all among the facts with the largest weight of some
    hop. `facts of hop k` is how often that fact of hop k is a supporting one.

    Raises:
        DataError: there are no questions.
    """
    counts, total = Counter[str](), 0
    for question in train:
        counts[question.answer] += 1
        total += 1
    if not counts or not questions:
        raise DataError("there are no questions; check the files")
    most_frequent = min(counts, key=lambda name: (-counts[name], name))
    constant_prediction = StoryAnswer(most_frequent, 1.0, (), (), np.zeros((0, 0)))
    num_unknown = sum(question.answer not in counts for question in questions)

    def answer_questions(predictor: StoryPredictor) -> list[StoryAnswer]:
        return predictor.answer([(question.facts, question.question) for question in questions])

    return LabelEvaluator(
        [(question.task, question.facts, question.question) for question in questions],
        [question.answer for question in questions],
        predict_labels=answer_questions,
        measure=lambda answers: compute_story_metrics(answers, questions),
        size=len(questions),
        num_train_examples=total,
        constant_answer=most_frequent,
        baseline_answers=[constant_prediction] * len(questions),
        main_metric="error",
        data_warnings=(f"{num_unknown:,} answers never occur in the training text, and count as wrong",)
        if num_unknown
        else (),
    )


def compute_story_metrics(answers: Sequence[StoryAnswer], questions: Sequence[StoryQuestion]) -> dict[str, Metric]:
    """Compute the metrics of `build_story_evaluator` for the answers to questions, in their order; without supporting
    facts those of facts are left out.
    """
    answer_accuracy = accuracy([each.answer for each in answers], [each.answer for each in questions])
    errors = tuple(
        RatioMetric((1 - answer_accuracy.numerators) * is_in_task, is_in_task)
        for is_in_task in _group_by_task(questions).values()
    )
    metrics: dict[str, Metric] = {
        "error": MeanMetric(errors),
        "failed": FailedTasks(errors),
        "accuracy": answer_accuracy,
    }
    return metrics | _compute_fact_metrics(answers, questions)


def _group_by_task(questions: Sequence[StoryQuestion]) -> dict[str, Float[np.ndarray, " N"]]:
    """Return, for each task, an array with 1 for its questions and 0 for others."""
    tasks = np.array([question.task for question in questions])
    return {task: (tasks == task).astype(np.float64) for task in dict.fromkeys(question.task for question in questions)}


def _compute_fact_metrics(answers: Sequence[StoryAnswer], questions: Sequence[StoryQuestion]) -> dict[str, Metric]:
    """Return the shares of questions whose supporting facts the answers attend to, for all hops together and for each
    hop; empty if no question has supporting facts.
    """
    has_supporting = np.array([each.supporting is not None for each in questions], dtype=np.float64)
    if not has_supporting.any():
        return {}
    supporting_sets = [set(each.supporting or ()) for each in questions]
    is_covered = [
        bool(supporting) and supporting <= set(each.looked)
        for each, supporting in zip(answers, supporting_sets, strict=True)
    ]
    metrics: dict[str, Metric] = {"facts": RatioMetric(np.array(is_covered, dtype=np.float64), has_supporting)}
    for hop in range(max(len(each.looked) for each in answers)):
        hits = [
            not supporting.isdisjoint(each.looked[hop : hop + 1])
            for each, supporting in zip(answers, supporting_sets, strict=True)
        ]
        metrics[f"facts of hop {hop + 1}"] = RatioMetric(np.array(hits, dtype=np.float64), has_supporting)
    return metrics


@final
@dataclass(frozen=True, repr=False)
class StoriesReport(LabelReport):
    """Report of story question answering, with the result of each task."""

    def format_text(self) -> str:
        """Format the overall metrics, and a line per task if there are several."""
        tasks = self._summarize_tasks()
        if len(tasks) == 1:
            return super().format_text()
        lines = [f"{'task':<14}  {'questions':>9}  {'error':>6}  {'facts':>6}".rstrip()]
        for task, row in tasks.items():
            facts = f"{row['facts']:6.3f}" if "facts" in row else ""
            lines.append(f"{task:<14}  {row['questions']:>9,}  {row['error']:6.3f}  {facts}".rstrip())
        return "\n".join((super().format_text(), "", *lines))

    def to_json(self) -> dict[str, Any]:
        """Return the report's content with the results of each task."""
        return {**super().to_json(), "tasks": self._summarize_tasks()}

    def _summarize_tasks(self) -> dict[str, dict[str, Any]]:
        """Return number of questions, error and fact accuracy of each task."""
        tasks = np.array([task for task, *_ in cast("Sequence[tuple[str, ...]]", self.evaluator.inputs)])
        rows: dict[str, dict[str, Any]] = {}
        for task in dict.fromkeys(tasks.tolist()):
            is_in_task = (tasks == task)[None].astype(np.float64)
            values = {
                name: float(self.metrics[name].compute_scores(is_in_task)[0])
                for name in {"accuracy", "facts"} & self.metrics.keys()
            }
            rows[task] = {"questions": int(is_in_task.sum()), "error": 1 - values.pop("accuracy"), **values}
        return rows
