"""What a system reached in an exam, and several of them side by side; each task says how that is shown."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from typing import Any, ClassVar, Final, final

from heedful.inspection.page import PageTable, escape_page_text, render_html_page
from heedful.inspection.plots import PlotLine, draw_line_plot
from heedful.inspection.scales import LOGARITHMIC
from heedful.metrics.bootstrap import (
    BootstrapOptions,
    ConfidenceInterval,
    PairedTest,
    compute_intervals,
    run_paired_tests,
)
from heedful.metrics.metric import Metric
from heedful.recipes.recipe import Recipe
from heedful.tasks.evaluation import Evaluator
from heedful.tasks.run_summary import RunSummary, collapse_tables, find_differences, name_models
from heedful.version import __version__

NO_VALUE: Final = "-"


@dataclass(frozen=True)
class EvaluatedSystem:
    """Who answered: a run, which has `summary`, or something that has none, such as a file."""

    name: str
    summary: RunSummary | None = None

    @property
    def label(self) -> str:
        """The name, with a star where training is not finished."""
        return f"{self.name} *" if self.summary is not None and not self.summary.finished else self.name

    @property
    def required_summary(self) -> RunSummary:
        """The facts, where there must be some."""
        assert self.summary is not None, f"{self.name} is no run"
        return self.summary


@dataclass(frozen=True)
class EvaluationReport(ABC):
    """What a system's answers are worth, alone and beside another's.

    Attributes:
        evaluator: what was asked.
        system: who answered.
        answers: what it said.
        sampling: how intervals and tests are drawn.
        reference: what it is tested against, if anything.
    """

    digits: ClassVar[int] = 4

    evaluator: Evaluator
    system: EvaluatedSystem
    answers: Any
    sampling: BootstrapOptions
    reference: EvaluationReport | None = None

    @cached_property
    def metrics(self) -> Mapping[str, Metric]:
        """By their names."""
        return self.evaluator.compute_metrics(self.answers)

    @property
    def resampled_metrics(self) -> Mapping[str, Metric]:
        """Those that have intervals and are tested."""
        return self.metrics

    @cached_property
    def intervals(self) -> Mapping[str, ConfidenceInterval]:
        """Each with where it may lie."""
        return compute_intervals(self.resampled_metrics, self.sampling)

    @cached_property
    def tests(self) -> Mapping[str, PairedTest]:
        """Each beside that of the first system; none for that system itself."""
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
        """Digits behind the point that a metric is told with."""
        return self.digits

    @abstractmethod
    def format_text(self) -> str:
        """Alone, for a terminal: plain lines, for what a signature says must never be cut to its width."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Alone, as JSON has it."""

    def to_html(self, on_progress: Callable[[int, int | None], None] = lambda _, __: None) -> str:
        """Answers that are worth looking at, as a web page, where a task understands `EvaluatorOptions.paged`.

        Args:
            on_progress: told how many examples to learn from have been read, and how many will be, None before that is known.
        """
        raise NotImplementedError("this task has no page of its answers")

    @final
    def format_tests(self) -> str:
        """The tests, for a terminal."""
        width = max(6, *map(len, self.tests))
        lines = [f"against {self.system.name} (paired bootstrap)"]
        for test in self.tests.values():
            difference, number_format = test.difference, f".{self.metric_digits(test.name)}f"
            lines.append(
                f"  {test.name:<{width}} {test.first.value:{number_format}} and {test.second.value:{number_format}}: difference "
                f"{difference.value:+{number_format}} ({difference.low:+{number_format}} to {difference.high:+{number_format}}), p = {test.p_value:.3f}"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class RunComparison(ABC):
    """Runs in one exam, side by side.

    Attributes:
        reports: in the order in which they were named; the first is what the others are tested against.
        device: where they answered.
        threads: of the processor that took part.
    """

    ignored_keys: ClassVar[tuple[str, ...]] = ("model.",)
    """Keys in which recipes may differ without a word."""
    subject: ClassVar[str] = "the model"
    """What these are about."""

    reports: tuple[EvaluationReport, ...]
    device: str
    threads: int

    @property
    def exam(self) -> Evaluator:
        """What was asked."""
        return self.reports[0].evaluator

    @property
    def sampling(self) -> BootstrapOptions:
        """How intervals and tests were drawn."""
        return self.reports[0].sampling

    @property
    def run_count_text(self) -> str:
        """How many runs, in words."""
        return f"{len(self.reports)} runs" if len(self.reports) > 1 else "1 run"

    @cached_property
    def recipes(self) -> list[Recipe]:
        """How the runs were made."""
        return [report.system.required_summary.recipe for report in self.reports]

    @cached_property
    def model_names(self) -> list[str]:
        """The kind of each model, told apart."""
        return name_models(self.recipes)

    @cached_property
    def recipe_differences(self) -> dict[str, list[Any]]:
        """Keys in which the recipes differ."""
        return find_differences(self.recipes)

    @property
    @abstractmethod
    def heading(self) -> str:
        """What is compared."""

    @abstractmethod
    def build_results_table(self) -> PageTable:
        """A row for each run."""

    def build_extra_tables(self) -> Sequence[PageTable]:
        """Further ones."""
        return ()

    @abstractmethod
    def draw_plots(self) -> Sequence[str]:
        """As SVG, the most telling one first."""

    @abstractmethod
    def build_json_fields(self) -> dict[str, Any]:
        """What JSON has besides the runs."""

    @abstractmethod
    def build_run_json(self, report: EvaluationReport) -> dict[str, Any]:
        """What JSON has of a run besides its facts."""

    def table_notes(self) -> Iterable[str]:
        """Notes below the results."""
        return ()

    def plot_by_size(self, metric: str, *, title: str, y_name: str) -> str:
        """A metric of each run, with its interval, over the number of its parameters."""
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
        tables = (self.build_results_table(), *self.build_extra_tables())
        return "\n".join(
            [escape_page_text(self.heading), *(table.to_html() for table in tables), self.draw_main_plot()]
        )

    @final
    def format_text(self) -> str:
        """For a terminal: plain lines, whatever its width."""
        return f"{self.heading}\n\n" + "\n".join(
            table.format_text() for table in (self.build_results_table(), *self.build_extra_tables())
        )

    @final
    def to_html(self) -> str:
        """A page that needs nothing else."""
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
        """The most telling picture, as SVG."""
        return self.draw_plots()[0]

    @final
    def dump_json(self) -> str:
        """All numbers."""
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
        """What must be known to read the results."""
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
        """Whether its tokens are those of the first run."""
        return report.system.required_summary.vocabulary == self.reports[0].system.required_summary.vocabulary

    def plot_loss_curves(self) -> list[str]:
        """The losses of the validation text, two plots for each group of runs whose losses are of the same tokens."""
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
    """The number as `format` writes it, a dash for none."""
    return NO_VALUE if value is None else format(value, number_format)


def format_interval(interval: ConfidenceInterval, digits: int) -> str:
    """Where a score may lie."""
    return f"{interval.low:.{digits}f} to {interval.high:.{digits}f}"


def _summary_json(system: EvaluatedSystem, model_name: str) -> dict[str, Any]:
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
    """JSON knows no infinity."""
    if isinstance(content, dict):
        return {key: _replace_nonfinite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_replace_nonfinite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _format_value(value: Any) -> str:
    """As TOML writes it, more or less; a dash where a recipe has no such key."""
    if value is None:
        return NO_VALUE
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plot_curves(reports: Sequence[EvaluationReport], *, alone: bool) -> list[str]:
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
