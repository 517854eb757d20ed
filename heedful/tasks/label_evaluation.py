"""Evaluators of labelled examples with a majority baseline, their reports, and learning curves over the number of
examples.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar, Final, Self, final

from heedful.data.random_numbers import require_enough_examples
from heedful.inspection.page import PageTable
from heedful.inspection.plots import LOGARITHMIC, PlotLine, ReferenceLine, draw_line_plot
from heedful.metrics.metric import Metric, PairedTest, run_paired_tests
from heedful.recipes.recipe import FineTunableRecipe, Recipe
from heedful.tasks.comparison import RunComparison
from heedful.tasks.evaluation import Evaluator
from heedful.tasks.report import (
    INTERVAL_COLUMNS,
    EvaluatedSystem,
    EvaluationReport,
)
from heedful.tasks.report_text import NO_VALUE, format_number

LOWER_IS_BETTER: Final = frozenset({"error"})
"""Metrics of which lower values are better."""


@dataclass(eq=False)
class LabelEvaluator(Evaluator):
    """Evaluator of labelled examples, with the baseline of always giving the most frequent answer.

    Attributes:
        predict_labels: returns a predictor's answers to the examples.
        measure: computes the metrics of such answers.
        num_train_examples: number of training examples.
        constant_answer: most frequent label of the training data; empty for no answer, None if each example has its own
            candidates.
        baseline_answers: the baseline's answer to each example.
        main_metric: name of the most important metric.
    """

    inputs: Sequence[Hashable]
    reference_answers: Sequence[Hashable]
    _: KW_ONLY
    predict_labels: Callable[[Any], Any]
    measure: Callable[[Any], Mapping[str, Metric]]
    size: int
    num_train_examples: int
    constant_answer: Any
    baseline_answers: Any
    main_metric: str
    data_warnings: Sequence[str] = ()

    def predict(self, predictor: Any, recipe: Recipe) -> Any:
        """Return the answers that `predict_labels` gets from the predictor; the recipe is not used."""
        return self.predict_labels(predictor)

    def compute_metrics(self, answers: Any) -> Mapping[str, Metric]:
        """Compute the metrics with `measure`."""
        return self.measure(answers)

    @property
    def baseline_text(self) -> str:
        """The baseline's answer, for people."""
        if self.constant_answer is None:
            return "a name that is like the others"
        return (
            f"{self.constant_answer:.4g}" if isinstance(self.constant_answer, float) else f"{self.constant_answer}"
        ) or "no answer"

    @property
    def single_label(self) -> str:
        """The label that all examples share, for people; empty if there are several labels, or only one example."""
        labels = {label if isinstance(label, str | float) else None for label in self.reference_answers}
        label = labels.pop()
        return "" if labels or label is None or len(self.reference_answers) == 1 else repr(label)

    def describe_failure(self, metrics: Mapping[str, float], *, answers: Any = None, error: float | None = None) -> str:
        """Return a warning if the model is not better than the baseline; empty if it is better. For numbers, `error` is
        the mean squared error if the answers are unknown.

        Numbers are compared by their mean squared error, because a constant answer has no correlation with anything;
        all other answers by the first metric that both have.

        Args:
            metrics: the model's metrics, by name.
            answers: the model's answer to each example, if known.
            error: mean squared error of its numbers, if known instead.
        """
        if isinstance(self.constant_answer, float):
            references = [float(str(label)) for label in self.reference_answers]
            if answers is not None:
                error = fmean((answer - gold) ** 2 for answer, gold in zip(answers, references, strict=True))
            baseline_value = fmean((self.constant_answer - gold) ** 2 for gold in references)
            if error is None or error < baseline_value:
                return ""
            return _format_failure(
                f"a mean squared error of {error:.4g}", f"always {self.baseline_text} has {baseline_value:.4g}"
            )
        if self.constant_answer is None:
            return ""
        baseline = self.compute_metrics(self.baseline_answers)
        name = next((name for name in (self.main_metric, *baseline) if name in metrics and name in baseline), None)
        if name is None:
            return ""
        value, baseline_value = metrics[name], baseline[name].value
        if value < baseline_value if name in LOWER_IS_BETTER else value > baseline_value:
            return ""
        return _format_failure(f"{name} {value:.4f}", f"always {self.baseline_text} has {baseline_value:.4f}")

    def count_train_examples(self, recipe: Recipe) -> int:
        """Return how many examples a run is trained on."""
        return recipe.get_sample_size("train") or self.num_train_examples

    def check_recipe(self, recipe: Recipe) -> None:
        """Raise `RecipeError` if there are fewer training examples than the recipe asks for."""
        if (count := recipe.get_sample_size("train")) is not None:
            require_enough_examples(count, self.num_train_examples)

    @final
    def with_location(self, part: str, text: str, *, table: str) -> Self:
        """Return a copy that knows the name of its part of the data, the description `text` of its files and the name
        of its recipe table.
        """
        result = copy(self)
        result.part, result.data_description, result.recipe_keys = part, text, (f"{table}.{part}",)
        return result


def _format_failure(model_text: str, baseline_text: str) -> str:
    """Format the warning that a model is not better than the baseline, given the score of each in words."""
    return (
        f"the model is not better than the same answer to everything: it has {model_text}, and {baseline_text}; "
        "check the labels, train longer on more examples, or begin with a pre-trained model"
    )


@dataclass(frozen=True, repr=False)
class LabelReport(EvaluationReport):
    """Metrics of a model beside those of always giving the most frequent training label."""

    evaluator: LabelEvaluator

    def format_text(self) -> str:
        """Format the heading, one line for each metric, and the warnings."""
        return "\n\n".join([self.heading, self.format_table(), *self.warnings])

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings that the model is not better than the baseline, or that all examples have one label."""
        if label := self.evaluator.single_label:
            return (
                f"warning: all {self.evaluator.size:,} examples have the label {label}, so the result says nothing "
                "about the model",
            )
        failure = self.evaluator.describe_failure(self.metric_values, answers=self.answers)
        return (f"warning: {failure}",) if failure else ()

    @property
    def heading(self) -> str:
        """Name of the system, part of the data and number of examples."""
        return f"{self.system.name}: {self.evaluator.part}, {self.evaluator.size:,} examples"

    def format_table(self) -> str:
        """Format one line for each metric, without a heading."""
        width = max(14, *map(len, self.metrics))
        lines = [f"{'metric':<{width}}  {'value':>8}  always {self.evaluator.baseline_text}"]
        baseline = self._baseline_values
        for name, metric in self.metrics.items():
            baseline_text = f"{baseline[name]:.4f}" if name in baseline else ""
            lines.append(f"{name:<{width}}  {metric.value:>8.4f}  {baseline_text}".rstrip())
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the metrics and those of the baseline as JSON data."""
        return {
            "part": self.evaluator.part,
            "examples": self.evaluator.size,
            "metrics": self.metric_values,
            "baseline": self._baseline_values,
            "answer": self.evaluator.constant_answer,
            "warnings": list(self.warnings),
        }

    @cached_property
    def _baseline_values(self) -> dict[str, float]:
        """Compute the metrics of the baseline, by name."""
        return {
            name: metric.value
            for name, metric in self.evaluator.compute_metrics(self.evaluator.baseline_answers).items()
        }


@final
@dataclass(frozen=True, repr=False)
class LabelComparison(RunComparison):
    """Runs compared by one label evaluator, beside the baseline."""

    ignored_keys: ClassVar = ("model.", "tokenizer.", "data.examples")
    subject: ClassVar = "model and examples"

    reports: tuple[LabelReport, ...]

    @property
    def exam(self) -> LabelEvaluator:
        """The common evaluator."""
        return self.reports[0].evaluator

    @cached_property
    def baseline_report(self) -> EvaluationReport:
        """Report of the baseline, which ignores the texts."""
        name = (
            "the candidate most like the others"
            if self.exam.constant_answer is None
            else f"always {self.exam.baseline_text}"
        )
        first = self.reports[0]
        return type(first)(self.exam, EvaluatedSystem(name), self.exam.baseline_answers, self.sampling, first)

    @cached_property
    def run_families(self) -> list[list[EvaluationReport]]:
        """Runs that differ only in their number of training examples, grouped, and ordered by that number."""
        groups: dict[str, list[EvaluationReport]] = {}
        for report in self.reports:
            groups.setdefault(_recipe_key(report.system.required_summary.recipe), []).append(report)
        return [sorted(reports, key=self._num_examples) for reports in groups.values()]

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Metric names, the main one first."""
        main_metric = self.exam.main_metric
        return (main_metric, *(name for name in self.baseline_report.metrics if name != main_metric))

    @property
    def heading(self) -> str:
        """Number of runs, task, number of answers and data."""
        return (
            f"{self.run_count_text} of {self.recipes[0].task}, {self.exam.size:,} answers about "
            f"{self.exam.data_description}"
        )

    def build_results_table(self) -> PageTable:
        """Return a table with a row for each run and one for the baseline."""
        columns = ["run", "model", "start", "examples", "learned", "minutes"]
        for name in self.metric_names:
            columns += [name, *INTERVAL_COLUMNS]
        rows = []
        for report, model_name in zip(self.reports, self.model_names, strict=True):
            facts = report.system.required_summary
            cells = [report.system.label, model_name, _describe_start(facts.recipe), f"{self._num_examples(report):,}"]
            cells += [f"{facts.trainable_parameters:,}", format_number(facts.minutes, ".1f")]
            rows.append([*cells, *self._metric_cells(report)])
        baseline_cells = [
            self.baseline_report.system.name,
            NO_VALUE,
            NO_VALUE,
            f"{self.exam.num_train_examples:,}",
            "0",
            NO_VALUE,
        ]
        return PageTable(
            "", columns, [*rows, [*baseline_cells, *self._metric_cells(self.baseline_report)]], self.collect_notes()
        )

    def _metric_cells(self, report: EvaluationReport) -> list[str]:
        return [cell for name in self.metric_names for cell in report.format_score(name)]

    def table_notes(self) -> list[str]:
        """Return notes that explain the columns."""
        return [
            "learned: parameters that training changes",
            f"p: how often chance alone makes a difference from {self.reports[0].system.name} at least this large "
            f"(paired bootstrap, {self.sampling.samples:,} samples)",
        ]

    def build_extra_tables(self) -> list[PageTable]:
        """Return a table of the main metric with a row for each family of runs (see `run_families`) and a column for
        each number of training examples; empty if each family has one run.
        """
        if all(len(family) == 1 for family in self.run_families):
            return []
        sizes = sorted({self._num_examples(report) for report in self.reports})
        name, first = self.metric_names[0], self._name_family(self.run_families[0])
        rows = []
        for family in self.run_families:
            values = {self._num_examples(report): f"{report.metrics[name].value:.4f}" for report in family}
            for size, test in self._test_against_first(family).items():
                values[size] += f" ({test.p_value:.3f})"
            rows.append([self._name_family(family), *(values.get(size, NO_VALUE) for size in sizes)])
        notes = [] if len(rows) == 1 else [f"in brackets p of the difference from {first} with as many examples"]
        return [PageTable(f"{name} by examples learned from", ["runs", *(f"{size:,}" for size in sizes)], rows, notes)]

    def draw_plots(self) -> list[str]:
        """Plot each metric over the number of training examples; return each as HTML."""
        return [self._plot_metric(name) for name in self.metric_names]

    def build_json_fields(self) -> dict[str, Any]:
        """Return the evaluator's settings, the baseline and the families as JSON data."""
        return {
            "examples": self.exam.size,
            "samples": self.sampling.samples,
            "seed": self.sampling.seed,
            "metrics": list(self.metric_names),
            "baseline": {"answer": self.exam.constant_answer, **self.baseline_report.scores_to_json()},
            "families": [
                {
                    "name": self._name_family(family),
                    "runs": [report.system.name for report in family],
                    "against_first": {str(n): asdict(each) for n, each in self._test_against_first(family).items()},
                }
                for family in self.run_families
            ],
        }

    def build_run_json(self, report: EvaluationReport) -> dict[str, Any]:
        """Return the start, the number of training examples and the metrics of the run that a report is about as JSON
        data.
        """
        recipe = report.system.required_summary.recipe
        init = recipe.init if isinstance(recipe, FineTunableRecipe) else None
        return {
            "init": None if init is None else str(init),
            "freeze": getattr(recipe.training, "freeze", 0),
            "examples": self._num_examples(report),
            **report.scores_to_json(),
        }

    def _num_examples(self, report: EvaluationReport) -> int:
        """Return the number of training examples of a report's run."""
        return self.exam.count_train_examples(report.system.required_summary.recipe)

    def _name_family(self, family: Sequence[EvaluationReport]) -> str:
        """Return the common part of the runs' names without the number of examples; the first name if they have
        none.
        """
        stems = {report.system.name.removesuffix(f"-{self._num_examples(report)}") for report in family}
        return stems.pop() if len(stems) == 1 else family[0].system.name

    def _test_against_first(self, family: Sequence[EvaluationReport]) -> dict[int, PairedTest]:
        """Test the main metric of each run of a family against the run of the first family with as many training
        examples; return the tests by this number, empty for the first family itself.
        """
        if family[0] is self.run_families[0][0]:
            return {}
        reference_reports, name = (
            {self._num_examples(report): report for report in self.run_families[0]},
            self.metric_names[0],
        )
        report_pairs = [
            (reference_reports[size], report)
            for report in family
            if (size := self._num_examples(report)) in reference_reports
        ]
        return {
            self._num_examples(report): run_paired_tests(
                {name: other.metrics[name]}, {name: report.metrics[name]}, self.sampling
            )[name]
            for other, report in report_pairs
        }

    def _plot_metric(self, name: str) -> str:
        """Plot the metric `name` over the number of training examples, with a line for each family of runs."""
        lines = []
        for family in self.run_families:
            points_with_intervals = [(self._num_examples(report), report.intervals[name]) for report in family]
            points = tuple((examples, interval.value) for examples, interval in points_with_intervals)
            lines.append(
                PlotLine(
                    self._name_family(family),
                    points,
                    band=tuple((interval.low, interval.high) for _, interval in points_with_intervals),
                )
            )
        return draw_line_plot(
            lines,
            title=f"{name} by examples learned from",
            x_name="examples learned from",
            y_name=f"{name}, with its 95 % interval",
            x_ticks=[(size, f"{size:,}") for size in sorted({self._num_examples(report) for report in self.reports})],
            x_scale=LOGARITHMIC,
            levels=[ReferenceLine(self.baseline_report.system.name, self.baseline_report.metrics[name].value)],
        )


def _describe_start(recipe: Recipe) -> str:
    """Describe what a model starts from, and which of its layers are frozen."""
    if not isinstance(recipe, FineTunableRecipe) or recipe.init is None:
        return "scratch"
    match getattr(recipe.training, "freeze", 0):
        case "encoder":
            return f"{recipe.init.name}, frozen"
        case 0:
            return recipe.init.name
        case layers:
            return f"{recipe.init.name}, {layers} frozen"


def _recipe_key(recipe: Recipe) -> str:
    """Return a key that is equal for recipes that differ only in the number of examples and the output folder."""
    table = recipe.model_dump(mode="json", exclude={"output"})
    members: Mapping[str, Any] = table.get("tasks") or {"": table}
    for data_table in members.values():
        data_table["data"].pop("examples", None)
    return repr(table)
