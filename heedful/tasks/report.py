"""Results of a system on an evaluator; each task defines its presentation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from typing import Any, ClassVar, Final, final

from heedful.metrics.metric import (
    BootstrapOptions,
    ConfidenceInterval,
    Metric,
    PairedTest,
    compute_intervals,
    run_paired_tests,
)
from heedful.recipes.recipe import Recipe
from heedful.tasks.evaluation import Evaluator
from heedful.tasks.report_text import format_number


@dataclass(frozen=True)
class CurvePoint:
    """One evaluation during training: updates and minutes so far, and the loss in nats per token."""

    step: int
    minutes: float
    loss: float


@dataclass(frozen=True)
class RunSummary:
    """Summary of a trained run of any task.

    Attributes:
        recipe: recipe of the run.
        finished: whether training is finished; if not, the best checkpoint so far is used.
        step: number of updates, or those of that checkpoint.
        parameters: number of parameters, tied ones counted once.
        trainable_parameters: parameters that training changes.
        vocabulary: key that is equal for runs whose losses and perplexities count the same tokens.
        minutes: training time, evaluation included; None if metrics.jsonl does not contain it.
        tokens_per_second: tokens or labels trained on per second, the median of measurements over fifty updates.
        curve: the evaluations in order.
    """

    recipe: Recipe
    finished: bool
    step: int
    parameters: int
    trainable_parameters: int
    vocabulary: str
    minutes: float | None
    tokens_per_second: float | None
    curve: tuple[CurvePoint, ...]


INTERVAL_COLUMNS: Final = ("95 % interval", "p")
"""Columns behind that of a metric's value (see `EvaluationReport.format_score`)."""


@dataclass(frozen=True)
class EvaluatedSystem:
    """A run with its summary, or another source of answers without one, such as a file."""

    name: str
    summary: RunSummary | None = None

    @property
    def label(self) -> str:
        """The name, with a star if training is not finished."""
        return f"{self.name} *" if self.summary is not None and not self.summary.finished else self.name

    @property
    def required_summary(self) -> RunSummary:
        """The summary, which must exist."""
        assert self.summary is not None, f"{self.name} is not a run"
        return self.summary


@dataclass(frozen=True)
class EvaluationReport(ABC):
    """Metrics of a system's answers, with intervals and tests against another system.

    Attributes:
        evaluator: the evaluator.
        system: the system that answered.
        answers: its answers.
        sampling: how intervals and tests are sampled.
        reference: the report it is tested against, if any.
    """

    digits: ClassVar[int] = 4

    evaluator: Evaluator
    system: EvaluatedSystem
    answers: Any
    sampling: BootstrapOptions
    reference: EvaluationReport | None = None

    @cached_property
    def metrics(self) -> Mapping[str, Metric]:
        """Metrics by name."""
        return self.evaluator.compute_metrics(self.answers)

    @property
    def metric_values(self) -> dict[str, float]:
        """Value of each metric."""
        return {name: metric.value for name, metric in self.metrics.items()}

    @property
    def resampled_metrics(self) -> Mapping[str, Metric]:
        """Metrics that get intervals and tests."""
        return self.metrics

    @cached_property
    def intervals(self) -> Mapping[str, ConfidenceInterval]:
        """Confidence interval of each metric."""
        return compute_intervals(self.resampled_metrics, self.sampling)

    @cached_property
    def tests(self) -> Mapping[str, PairedTest]:
        """Paired test of each metric against the reference; empty without a reference."""
        if self.reference is None:
            return {}
        own_metrics = self.resampled_metrics
        reference_metrics = {
            name: metric for name, metric in self.reference.resampled_metrics.items() if name in own_metrics
        }
        return run_paired_tests(
            reference_metrics, {name: own_metrics[name] for name in reference_metrics}, self.sampling
        )

    def __repr__(self) -> str:
        return self.format_text()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.format_text())}</pre>"

    def metric_digits(self, _name: str) -> int:
        """Return the number of decimals of a metric."""
        return self.digits

    @abstractmethod
    def format_text(self) -> str:
        """Format the report for a terminal, as plain lines that are never cut to its width."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON data."""

    def scores_to_json(self) -> dict[str, Any]:
        """Return the intervals and tests as JSON data."""
        return {
            "metrics": {name: asdict(interval) for name, interval in self.intervals.items()},
            "against_first": {name: asdict(test) for name, test in self.tests.items()},
        }

    def format_score(self, metric: str, number_format: str = ".4f") -> list[str]:
        """Format a metric, given by name, as table cells: value, interval and p value, a dash without a test."""
        interval, test = self.intervals[metric], self.tests.get(metric)
        bounds = f"{interval.low:{number_format}} to {interval.high:{number_format}}"
        return [f"{interval.value:{number_format}}", bounds, format_number(test.p_value if test else None, ".3f")]

    def to_html(self, on_progress: Callable[[int, int | None], None] = lambda _, __: None) -> str:
        """Return selected answers as a web page, if the task supports `EvaluatorOptions.paged`.

        Args:
            on_progress: called with the number of training examples read so far and their total, None before it is
                known.
        """
        raise NotImplementedError("this task has no page of answers")

    @final
    def format_tests(self) -> str:
        """Format the tests of each metric against the reference for a terminal."""
        width = max(6, *map(len, self.tests))
        lines = [f"against {self.system.name} (paired bootstrap)"]
        for test in self.tests.values():
            difference, number_format = test.difference, f".{self.metric_digits(test.name)}f"
            lines.append(
                f"  {test.name:<{width}} {test.first.value:{number_format}} and {test.second.value:{number_format}}: "
                f"difference {difference.value:+{number_format}} ({difference.low:+{number_format}} to "
                f"{difference.high:+{number_format}}), p = {test.p_value:.3f}"
            )
        return "\n".join(lines)
