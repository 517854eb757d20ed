"""Comparison of several runs by one evaluator: tables, plots, a page and JSON."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, final

from heedful.inspection.page import PageTable, escape_page_text, render_html_page
from heedful.inspection.plots import LOGARITHMIC, PlotLine, draw_line_plot
from heedful.metrics.metric import BootstrapOptions
from heedful.recipes.recipe import Recipe
from heedful.tasks.evaluation import Evaluator
from heedful.tasks.report import EvaluatedSystem, EvaluationReport
from heedful.tasks.report_text import collapse_tables, find_differences, format_number, format_value, name_models
from heedful.tasks.seed_groups import SeedGroup, build_seed_table, group_by_seed, plot_seed_groups
from heedful.version import __version__


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
    seed_metrics: ClassVar[tuple[str, ...]] = ()
    """Metrics in the table of means over seeds, the main one first; all if empty."""

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

    @cached_property
    def seed_groups(self) -> list[SeedGroup]:
        """Groups of runs that differ only in their seed; empty if each run would be alone."""
        groups = group_by_seed(self.reports)
        return groups if any(len(group.reports) > 1 for group in groups) else []

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
        tables = [table.to_html() for table in self._build_tables()]
        return "\n".join([escape_page_text(self.heading), *tables, self.draw_main_plot()])

    @final
    def format_text(self) -> str:
        """Format the comparison for a terminal, as plain lines of any width."""
        return f"{self.heading}\n\n" + "\n".join(table.format_text() for table in self._build_tables())

    @final
    def to_html(self) -> str:
        """Return a self-contained web page."""
        names = [report.system.name for report in self.reports]
        rows = [[key, *map(format_value, values)] for key, values in self.recipe_differences.items()]
        differing = [PageTable("How the recipes differ", ["key", *names], rows)] if rows else []
        return render_html_page(
            self.heading,
            tables=[*self._build_tables(), *differing],
            pictures=[*self._plot_seeds(), *self.draw_plots()],
        )

    @final
    def draw_main_plot(self) -> str:
        """Draw the most informative plot as SVG."""
        return self.draw_plots()[0]

    def _build_tables(self) -> list[PageTable]:
        """Build all tables: that of the runs, that of the means over seeds if there are several, and the others."""
        seeds = [build_seed_table(self.seed_groups, self._seed_metrics)] if self.seed_groups else []
        return [self.build_results_table(), *seeds, *self.build_extra_tables()]

    def _plot_seeds(self) -> list[str]:
        """Plot the main metric of each group of seeds; empty without such groups."""
        return [plot_seed_groups(self.seed_groups, self._seed_metrics[0])] if self.seed_groups else []

    @property
    def _seed_metrics(self) -> Sequence[str]:
        """Metrics in the table of means over seeds."""
        return self.seed_metrics or list(self.reports[0].resampled_metrics)

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
            "seed_groups": [group.to_json() for group in self.seed_groups],
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
