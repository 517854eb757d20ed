"""Results of a system on an evaluator, and comparisons of several runs; each task defines its presentation."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from typing import Any, ClassVar, Final, final

from heedful.inspection.page import PageTable, escape_page_text, render_html_page
from heedful.inspection.plots import LOGARITHMIC, PlotLine, draw_line_plot
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
from heedful.version import __version__


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


def find_differences(recipes: Sequence[Recipe]) -> dict[str, list[Any]]:
    """Return the recipe keys whose values differ, with the value of each recipe, None if it lacks the key; output
    folders are ignored.
    """
    tables = [dict(_iter_leaves(recipe.model_dump(mode="json", exclude={"output"}))) for recipe in recipes]
    keys = dict.fromkeys(key for table in tables for key in table)
    values = {key: [table.get(key) for table in tables] for key in keys}
    return {key: row for key, row in values.items() if any(value != row[0] for value in row)}


def collapse_tables(keys: Iterable[str]) -> list[str]:
    """Replace dotted keys by the name of their table if the table's key `kind` is among them, as in model.positions."""
    all_keys = list(keys)
    kind_keys = sorted((key.removesuffix("kind") for key in all_keys if key.endswith(".kind")), key=len)
    names = (next((kind[:-1] for kind in kind_keys if key.startswith(kind)), key) for key in all_keys)
    return list(dict.fromkeys(names))


def _iter_leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and value of each leaf of a nested table; `prefix` is put before the keys."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _iter_leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def name_models(recipes: Sequence[Recipe]) -> list[str]:
    """Return a distinguishing name of the model of each recipe: its kind, and the named choices that differ from others
    of its kind, as in recurrent (luong).
    """
    names = []
    for recipe in recipes:
        peers = [other for other in recipes if other.model.kind == recipe.model.kind]
        leaves = dict(_iter_leaves(recipe.model_dump(mode="json", include={"model"})))
        shared = [key for key, values in find_differences(peers).items() if None not in values and not _is_path(key)]
        choices = [leaves[key] for key in shared if isinstance(leaves.get(key), str)]
        names.append(recipe.model.kind + (f" ({', '.join(choices)})" if choices else ""))
    return names


def _is_path(key: str) -> bool:
    """Return whether a key names a file of word vectors."""
    return key.endswith("_vectors")


NO_VALUE: Final = "-"
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


@dataclass(frozen=True)
class RunComparison(ABC):
    """Several runs compared by one evaluator.

    Attributes:
        reports: reports in the order of the runs; the first is the reference of the tests.
        device: device of the evaluation.
        threads: number of CPU threads used.
    """

    ignored_keys: ClassVar[tuple[str, ...]] = ("model.",)
    """Prefixes of recipe keys that may differ without a note."""
    subject: ClassVar[str] = "the model"
    """What these keys describe."""

    reports: tuple[EvaluationReport, ...]
    device: str
    threads: int

    @property
    def exam(self) -> Evaluator:
        """The common evaluator."""
        return self.reports[0].evaluator

    @property
    def sampling(self) -> BootstrapOptions:
        """How intervals and tests were sampled."""
        return self.reports[0].sampling

    @property
    def sampling_json(self) -> dict[str, int]:
        """How intervals and tests were sampled, as JSON data."""
        return {"samples": self.sampling.samples, "seed": self.sampling.seed}

    @property
    def run_count_text(self) -> str:
        """Number of runs, in words."""
        return f"{len(self.reports)} runs" if len(self.reports) > 1 else "1 run"

    @cached_property
    def recipes(self) -> list[Recipe]:
        """Recipes of the runs."""
        return [report.system.required_summary.recipe for report in self.reports]

    @cached_property
    def model_names(self) -> list[str]:
        """Distinguishing name of each model."""
        return name_models(self.recipes)

    @cached_property
    def recipe_differences(self) -> dict[str, list[Any]]:
        """Recipe keys whose values differ, with the value of each run."""
        return find_differences(self.recipes)

    @property
    @abstractmethod
    def heading(self) -> str:
        """Heading: what is compared."""

    @abstractmethod
    def build_results_table(self) -> PageTable:
        """Build the main table, with a row for each run."""

    def build_extra_tables(self) -> Sequence[PageTable]:
        """Build further tables for below the main table; none by default."""
        return ()

    def draw_plots(self) -> Sequence[str]:
        """Draw the plots as SVG, the most informative first; the loss curves by default."""
        return self.plot_loss_curves()

    @abstractmethod
    def build_json_fields(self) -> dict[str, Any]:
        """Return the JSON fields besides those of the runs."""

    @abstractmethod
    def build_run_json(self, report: EvaluationReport) -> dict[str, Any]:
        """Return the JSON fields of a run besides those of its summary."""

    def table_notes(self) -> Iterable[str]:
        """Return notes for below the results."""
        return ()

    def explain_p_values(self, units: str = "") -> list[str]:
        """Return a note on the p values, which ends with what the samples consist of (`units`); none for one run."""
        if len(self.reports) == 1:
            return []
        return [
            f"p: how often chance alone makes a difference from {self.reports[0].system.name} at least this large "
            f"(paired bootstrap, {self.sampling.samples:,} samples{units})"
        ]

    def describe_runs(self) -> list[list[str]]:
        """Return the first table cells of each run: its name, model, parameters and minutes."""
        rows = []
        for report, model_name in zip(self.reports, self.model_names, strict=True):
            summary = report.system.required_summary
            minutes = format_number(summary.minutes, ".1f")
            rows.append([report.system.label, model_name, f"{summary.parameters:,}", minutes])
        return rows

    def plot_by_size(self, metric: str, *, title: str, y_name: str) -> str:
        """Plot a metric of each run, with its interval, over the number of parameters, as SVG; `y_name` labels the y
        axis.
        """
        lines = []
        for report in self.reports:
            interval = report.intervals[metric]
            points = ((report.system.required_summary.parameters, interval.value),)
            lines.append(PlotLine(report.system.label, points, spread=((interval.low, interval.high),)))
        sizes = sorted({report.system.required_summary.parameters for report in self.reports})
        return draw_line_plot(
            lines,
            title=f"{title} by parameters",
            x_name="parameters",
            y_name=y_name,
            x_ticks=[(size, f"{size:,}") for size in sizes],
            x_scale=LOGARITHMIC,
        )

    def __repr__(self) -> str:
        return self.format_text()

    def _repr_html_(self) -> str:
        """Return the heading, the tables and the main plot as HTML for notebooks."""
        tables = (self.build_results_table(), *self.build_extra_tables())
        return "\n".join(
            [escape_page_text(self.heading), *(table.to_html() for table in tables), self.draw_main_plot()]
        )

    @final
    def format_text(self) -> str:
        """Format the comparison for a terminal, as plain lines of any width."""
        return f"{self.heading}\n\n" + "\n".join(
            table.format_text() for table in (self.build_results_table(), *self.build_extra_tables())
        )

    @final
    def to_html(self) -> str:
        """Return a self-contained web page."""
        names = [report.system.name for report in self.reports]
        rows = [[key, *map(_format_value, values)] for key, values in self.recipe_differences.items()]
        differing = [PageTable("How the recipes differ", ["key", *names], rows)] if rows else []
        return render_html_page(
            self.heading,
            tables=[self.build_results_table(), *self.build_extra_tables(), *differing],
            pictures=self.draw_plots(),
        )

    @final
    def draw_main_plot(self) -> str:
        """Draw the most informative plot as SVG."""
        return self.draw_plots()[0]

    @final
    def dump_json(self) -> str:
        """Return all numbers as a JSON string."""
        content = {
            "heedful": __version__,
            "task": self.recipes[0].task,
            "text": self.exam.data_description,
            **self.build_json_fields(),
            "device": self.device,
            "threads": self.threads,
            "runs": [
                _summary_json(report.system, model_name)
                | self.build_run_json(report)
                | {"curve": [asdict(point) for point in report.system.required_summary.curve]}
                for report, model_name in zip(self.reports, self.model_names, strict=True)
            ],
            "differences": self.recipe_differences,
            "notes": self.collect_notes(),
        }
        return json.dumps(_replace_nonfinite(content), indent=2, allow_nan=False, ensure_ascii=False) + "\n"

    @final
    def collect_notes(self) -> list[str]:
        """Return notes for a reader of the results: unfinished runs, notes of the task, and other differences between
        the recipes.
        """
        notes = [
            f"* {name} is not finished: its best checkpoint so far (step {facts.step:,}) is compared"
            for name, facts in ((report.system.name, report.system.required_summary) for report in self.reports)
            if not facts.finished
        ]
        notes += self.table_notes()
        if other_keys := [key for key in self.recipe_differences if not key.startswith(self.ignored_keys)]:
            notes.append(f"besides {self.subject}, the recipes differ in {', '.join(collapse_tables(other_keys))}")
        return notes

    def has_same_vocabulary(self, report: EvaluationReport) -> bool:
        """Return whether the run that a report is about has the same vocabulary as the first run."""
        return report.system.required_summary.vocabulary == self.reports[0].system.required_summary.vocabulary

    def plot_loss_curves(self) -> list[str]:
        """Plot the validation losses by minutes and by updates as SVG, for each group of runs with the same vocabulary
        and validation text.
        """
        groups: dict[tuple[str, str], list[EvaluationReport]] = {}
        for report in self.reports:
            facts = report.system.required_summary
            validation = facts.recipe.data.validation.model_dump_json()
            groups.setdefault((facts.vocabulary, validation), []).append(report)
        return [
            plot
            for reports in groups.values()
            if any(report.system.required_summary.curve for report in reports)
            for plot in _plot_curves(reports, alone=len(groups) == 1)
        ]


def format_number(value: float | None, number_format: str) -> str:
    """Format a number; a dash for None."""
    return NO_VALUE if value is None else format(value, number_format)


def format_interval(interval: ConfidenceInterval, digits: int) -> str:
    """Format the bounds of a confidence interval."""
    return f"{interval.low:.{digits}f} to {interval.high:.{digits}f}"


def _summary_json(system: EvaluatedSystem, model_name: str) -> dict[str, Any]:
    """Return the summary of a run, and the distinguishing name of its model, as JSON data."""
    summary = system.required_summary
    return {
        "run": system.name,
        "model": model_name,
        "finished": summary.finished,
        "step": summary.step,
        "parameters": summary.parameters,
        "learned": summary.trainable_parameters,
        "minutes": summary.minutes,
        "training_tokens_per_second": summary.tokens_per_second,
        "vocabulary": summary.vocabulary,
    }


def _replace_nonfinite(content: Any) -> Any:
    """Return JSON data in which infinite and undefined numbers are replaced by None, because JSON has none."""
    if isinstance(content, dict):
        return {key: _replace_nonfinite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_replace_nonfinite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _format_value(value: Any) -> str:
    """Format a recipe value roughly as TOML; a dash for None."""
    if value is None:
        return NO_VALUE
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plot_curves(reports: Sequence[EvaluationReport], *, alone: bool) -> list[str]:
    """Plot the loss curves of the reported runs by minutes and by updates, as SVG; unless they are `alone`, the titles
    name their common vocabulary and text.
    """
    curves = [(report.system.label, report.system.required_summary.curve) for report in reports]
    by_minutes = [PlotLine(label, tuple((p.minutes, p.loss) for p in curve)) for label, curve in curves]
    by_updates = [PlotLine(label, tuple((float(p.step), p.loss) for p in curve)) for label, curve in curves]
    suffix = "" if alone else f" with the vocabulary and the validation text of {reports[0].system.name}"
    return [
        draw_line_plot(
            lines, title=f"Validation loss by {unit}{suffix}", x_name=f"{unit} of training", y_name="nats per token"
        )
        for unit, lines in (("minutes", by_minutes), ("updates", by_updates))
    ]
