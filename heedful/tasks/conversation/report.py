"""Reports of conversation models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, final

from heedful.inspection.page import PageTable
from heedful.tasks.conversation.evaluation import NGRAM_ORDER, ReplyEvaluator, ReplyLikelihoods
from heedful.tasks.report import EvaluationReport, RunComparison, format_interval, format_number

_MAIN_METRIC: Final = "word_perplexity"


@final
@dataclass(frozen=True, repr=False)
class ConversationReport(EvaluationReport):
    """Perplexities of replies, with and without their context, beside n-grams."""

    evaluator: ReplyEvaluator
    answers: ReplyLikelihoods

    def format_text(self) -> str:
        """Format one line for each model."""
        values = {name: metric.value for name, metric in self.metrics.items()}
        tokens, words = int(self.answers.tokens.sum()), int(self.answers.words.sum())
        lines = [
            f"{self.system.name}: {self.evaluator.part}, {self.evaluator.size:,} replies",
            f"{'perplexity':<32}  {'per token':>10}  {'per word':>10}",
        ]
        for label, prefix, suffix in (
            ("the model", "", ""),
            ("the model without past turns", "", "_without_context"),
            (f"Kneser-Ney, {NGRAM_ORDER}-grams", "kneser_ney_", ""),
        ):
            perplexities = (values[f"{prefix}{name}{suffix}"] for name in ("perplexity", "word_perplexity"))
            lines.append(f"{label:<32}  {next(perplexities):>10.4f}  {next(perplexities):>10.4f}")
        lines.append(f"{tokens:,} tokens and {words:,} words, the end of each reply among them")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the perplexities as JSON data."""
        values = {name: metric.value for name, metric in self.metrics.items()}
        return {"part": self.evaluator.part, "replies": self.evaluator.size, **values, **self.count_text()}

    def count_text(self) -> dict[str, int]:
        """Return the number of tokens and words."""
        return {"tokens": int(self.answers.tokens.sum()), "words": int(self.answers.words.sum())}


@final
@dataclass(frozen=True, repr=False)
class ConversationComparison(RunComparison):
    """Comparison by perplexity per word, which needs no common vocabulary."""

    reports: tuple[ConversationReport, ...]

    @property
    def heading(self) -> str:
        """Number of runs, task, number of replies and data."""
        return (
            f"{self.run_count_text} of {self.recipes[0].task} on {self.exam.size:,} replies of "
            f"{self.exam.data_description}"
        )

    def build_results_table(self) -> PageTable:
        """Return a table with a row for each run."""
        rows = []
        for report, model_name in zip(self.reports, self.model_names, strict=True):
            summary, values = (
                report.system.required_summary,
                {name: metric.value for name, metric in report.metrics.items()},
            )
            rows.append(
                [
                    report.system.label,
                    model_name,
                    f"{summary.parameters:,}",
                    format_number(summary.minutes, ".1f"),
                    f"{values[_MAIN_METRIC]:.3f}",
                    format_interval(report.intervals[_MAIN_METRIC], 3),
                    format_number(report.tests[_MAIN_METRIC].p_value if report.tests else None, ".3f"),
                    f"{values['word_perplexity_without_context']:.3f}",
                    f"{values['kneser_ney_word_perplexity']:.3f}",
                ]
            )
        columns = ["run", "model", "parameters", "minutes", "word perplexity", "95 % interval", "p", "without context"]
        return PageTable("", [*columns, "Kneser-Ney"], rows, self.collect_notes())

    def table_notes(self) -> Iterator[str]:
        """Explain the columns."""
        if len(self.reports) > 1:
            yield (
                f"p: how often chance alone makes a difference from {self.reports[0].system.name} at least this large "
                f"(paired bootstrap, {self.sampling.samples:,} samples of replies)"
            )
        yield f"Kneser-Ney: {NGRAM_ORDER}-grams of the training dialogues in the tokens of the run"

    def draw_plots(self) -> list[str]:
        """Plot perplexity over model size, and the loss curves."""
        plot = self.plot_by_size(
            _MAIN_METRIC, title="Perplexity per word", y_name="perplexity per word, with its 95 % interval"
        )
        return [plot, *self.plot_loss_curves()]

    def build_json_fields(self) -> dict[str, Any]:
        """Return the part, the number of replies and the sampling as JSON data."""
        sampling = {"samples": self.sampling.samples, "seed": self.sampling.seed}
        return {"part": self.exam.part, "replies": self.exam.size, **sampling}

    def build_run_json(self, report: EvaluationReport) -> dict[str, Any]:
        """Return all metrics of a run, and the counts behind them, as JSON data."""
        assert isinstance(report, ConversationReport)
        return {
            **report.count_text(),
            "metrics": {name: asdict(value) for name, value in report.intervals.items()},
            "against_first": {name: asdict(value) for name, value in report.tests.items()},
        }
