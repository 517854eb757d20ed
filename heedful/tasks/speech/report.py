"""Reports and comparisons of speech recognition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, final

from heedful.inspection.page import PageTable
from heedful.tasks.report import EvaluationReport, RunComparison, format_interval, format_number
from heedful.tasks.speech.evaluation import SpeechEvaluator, SpeechOutputs


@final
@dataclass(frozen=True, repr=False)
class SpeechReport(EvaluationReport):
    """Report of error rates with confidence intervals."""

    digits: ClassVar = 2

    evaluator: SpeechEvaluator
    answers: SpeechOutputs

    def format_text(self) -> str:
        """Format a heading and one line per metric."""
        outputs = self.answers
        lines = [
            f"{self.system.name}: {self.evaluator.part or self.evaluator.data_description}, {self.evaluator.size:,} "
            "recordings of "
            f"{outputs.sound_seconds:,.0f} s together, heard in {outputs.decoding_seconds:.1f} s",
            "",
            f"{'metric':<16}  {'percent':>7}  95 % interval",
        ]
        lines += [
            f"{name:<16}  {interval.value:>7.2f}  {format_interval(interval, 2)}"
            for name, interval in self.intervals.items()
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the report's content."""
        return {
            "part": self.evaluator.part,
            "recordings": self.evaluator.size,
            "sound_seconds": self.answers.sound_seconds,
            "seconds": self.answers.decoding_seconds,
            "metrics": {name: asdict(interval) for name, interval in self.intervals.items()},
        }


@final
@dataclass(frozen=True, repr=False)
class SpeechComparison(RunComparison):
    """Comparison of several runs' error rates."""

    reports: tuple[SpeechReport, ...]

    @property
    def heading(self) -> str:
        """Heading with the number of recordings."""
        return (
            f"{self.run_count_text} of {self.recipes[0].task} on {self.exam.size:,} recordings of "
            f"{self.exam.data_description}"
        )

    def build_results_table(self) -> PageTable:
        """Build the table with one row per run."""
        columns = ["run", "model", "parameters", "minutes", "heard in s"]
        for name in self.reports[0].metrics:
            columns += [name, "95 % interval", "p"]
        rows = []
        for report, kind in zip(self.reports, self.model_names, strict=True):
            facts = report.system.required_summary
            row = [report.system.label, kind, f"{facts.parameters:,}", format_number(facts.minutes, ".1f")]
            row.append(f"{report.answers.decoding_seconds:.1f}")
            for name, interval in report.intervals.items():
                test = report.tests.get(name)
                row += [
                    f"{interval.value:.2f}",
                    format_interval(interval, 2),
                    format_number(test.p_value if test else None, ".3f"),
                ]
            rows.append(row)
        return PageTable("", columns, rows, self.collect_notes())

    def table_notes(self) -> Iterator[str]:
        """Return an explanation of the columns."""
        if len(self.reports) > 1:
            yield (
                f"p: how often chance alone makes a difference from {self.reports[0].system.name} at least this large "
                f"(paired bootstrap, {self.sampling.samples:,} samples)"
            )

    def draw_plots(self) -> list[str]:
        """Return plots of the learning curves."""
        return self.plot_loss_curves()

    def build_json_fields(self) -> dict[str, Any]:
        """Return the number of recordings and the resampling settings."""
        return {"recordings": self.exam.size, "samples": self.sampling.samples, "seed": self.sampling.seed}

    def build_run_json(self, report: EvaluationReport) -> dict[str, Any]:
        """Return all metrics and tests of one run."""
        return {
            "metrics": {name: asdict(result) for name, result in report.intervals.items()},
            "against_first": {name: asdict(result) for name, result in report.tests.items()},
        }
