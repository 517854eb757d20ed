"""Reports of language models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, final

from heedful.inspection.page import PageTable
from heedful.metrics.metric import Metric
from heedful.tasks.language.evaluation import LikelihoodResult, TextEvaluator
from heedful.tasks.report import EvaluationReport, RunComparison, format_interval, format_number

_TOKEN_METRICS: Final = ("loss", "perplexity")
_MAIN_METRIC: Final = "bits_per_byte"


@final
@dataclass(frozen=True, repr=False)
class LanguageReport(EvaluationReport):
    """Loss, perplexities and bits, and the counts behind them."""

    evaluator: TextEvaluator
    answers: LikelihoodResult

    @property
    def resampled_metrics(self) -> Mapping[str, Metric]:
        """Finite metrics; metrics per token only if the reference has the same tokens."""
        same_vocabulary = (
            self.reference is None
            or self.reference.system.required_summary.vocabulary == self.system.required_summary.vocabulary
        )
        return {
            name: metric
            for name, metric in self.metrics.items()
            if math.isfinite(metric.value) and (same_vocabulary or name not in _TOKEN_METRICS)
        }

    def format_text(self) -> str:
        """Format one line for each metric."""
        result, values = self.answers, {name: metric.value for name, metric in self.metrics.items()}
        documents = result.sum_counts("ends")
        ends = f" and {documents:,} {'end' if documents == 1 else 'ends'}"
        rows = (
            ("loss", "loss", f"nats per token, {result.sum_counts('tokens'):,} tokens"),
            ("perplexity", "perplexity", "per token"),
            ("word perplexity", "word_perplexity", f"{result.sum_counts('words'):,} words{ends}"),
            ("  with line ends", "word_perplexity_with_line_ends", self._describe_line_ends()),
            ("character perplexity", "character_perplexity", f"{result.sum_counts('characters'):,} characters{ends}"),
            ("bits per character", "bits_per_character", ""),
            ("bits per byte", "bits_per_byte", f"{result.sum_counts('bytes'):,} bytes{ends}"),
        )
        lines = [f"{self.system.name}: {self.evaluator.part}"]
        lines += [f"{label:<20}  {values[name]:12.4f}  {explanation}".rstrip() for label, name, explanation in rows]
        min_context = result.context - result.stride
        lines.append(
            f"context {result.context:,}, stride {result.stride:,}: each token follows at least {min_context:,} "
            "tokens, or all tokens before it"
        )
        if unknown := result.sum_counts("unknown"):
            lines.append(f"{unknown:,} tokens are unknown: their text is counted, but not predicted")
        return "\n".join(lines)

    def _describe_line_ends(self) -> str:
        """Explain what counts as a word in the perplexities published for the Penn Treebank and WikiText."""
        result = self.answers
        description = (
            f"{result.sum_counts('words'):,} words and {result.sum_counts('lines'):,} line ends, as of PTB and WikiText"
        )
        is_harder = result.sum_counts("lines") > result.sum_counts("ends") and not result.keeps_lines
        return (
            f"{description}; this model does not predict line ends, so published ones are harder"
            if is_harder
            else description
        )

    def to_json(self) -> dict[str, Any]:
        """Return the metrics and counts as JSON data."""
        return {
            "part": self.evaluator.part,
            **{name: metric.value for name, metric in self.metrics.items()},
            **self.count_text(),
        }

    def count_text(self) -> dict[str, Any]:
        """Return the size of the text, and the window it was read with."""
        result = self.answers
        return {
            "nats": math.fsum(result.nats),
            "tokens": result.sum_counts("tokens"),
            "unknown": result.sum_counts("unknown"),
            "documents": result.sum_counts("ends"),
            "words": result.sum_counts("words"),
            "line_ends": result.sum_counts("lines"),
            "characters": result.sum_counts("characters"),
            "bytes": result.sum_counts("bytes"),
            "context": result.context,
            "stride": result.stride,
        }


@final
@dataclass(frozen=True, repr=False)
class LanguageComparison(RunComparison):
    """Comparison by bits per byte, which need no common vocabulary, and by perplexity per token for runs with a
    common one.
    """

    reports: tuple[LanguageReport, ...]

    @property
    def exam(self) -> TextEvaluator:
        """The common evaluator."""
        return self.reports[0].evaluator

    @property
    def heading(self) -> str:
        """Number of runs, number of words and data."""
        words = self.reports[0].answers.sum_counts("words")
        return f"{self.run_count_text} of language_modelling on {words:,} words of {self.exam.data_description}"

    def build_results_table(self) -> PageTable:
        """Return a table with a row for each run."""
        columns = ["run", "model", "parameters", "minutes", "train tok/s", "context", "bits/byte", "95 % interval", "p"]
        rows = []
        for report, model_name in zip(self.reports, self.model_names, strict=True):
            summary, values = (
                report.system.required_summary,
                {name: metric.value for name, metric in report.metrics.items()},
            )
            test, same_vocabulary = report.tests.get("perplexity"), self.has_same_vocabulary(report)
            rows.append(
                [
                    report.system.label,
                    model_name,
                    f"{summary.parameters:,}",
                    format_number(summary.minutes, ".1f"),
                    format_number(summary.tokens_per_second, ",.0f"),
                    f"{report.answers.context:,}",
                    f"{values[_MAIN_METRIC]:.4f}",
                    format_interval(report.intervals[_MAIN_METRIC], 4),
                    format_number(report.tests[_MAIN_METRIC].p_value if report.tests else None, ".3f"),
                    f"{values['bits_per_character']:.4f}",
                    f"{values['word_perplexity']:,.2f}",
                    f"{values['word_perplexity_with_line_ends']:,.2f}",
                    format_number(values["perplexity"] if same_vocabulary else None, ",.3f"),
                    format_number(test.p_value if test else None, ".3f"),
                ]
            )
        columns += ["bits/character", "word perplexity", "with line ends", "perplexity", "p"]
        return PageTable("", columns, rows, self.collect_notes())

    def table_notes(self) -> Iterator[str]:
        """Explain the columns, and which runs predict another text than the first."""
        first, *others = self.reports
        name = first.system.name
        if others:
            yield (
                f"p: how often chance alone makes a difference from {name} at least this large (paired bootstrap, "
                f"{self.sampling.samples:,} samples of {self.exam.sample_unit_text})"
            )
        if not all(map(self.has_same_vocabulary, others)):
            yield f"perplexity is per token, so it is shown only for runs with the vocabulary of {name}"
        size = first.answers.sum_counts("bytes")
        for other in others:
            if (other_size := other.answers.sum_counts("bytes")) != size:
                yield (
                    f"{other.system.name}: its tokenizer reads the text as {other_size:,} bytes, that of {name} as "
                    f"{size:,}; they do not predict exactly the same"
                )
        for report in self.reports:
            if unknown := report.answers.sum_counts("unknown"):
                yield f"{report.system.name}: {unknown:,} tokens are unknown: the model predicts this, not their text"

    def draw_plots(self) -> list[str]:
        """Plot bits per byte over model size, and the loss curves."""
        plot = self.plot_by_size(_MAIN_METRIC, title="Bits per byte", y_name="bits per byte, with their 95 % interval")
        return [plot, *self.plot_loss_curves()]

    def build_json_fields(self) -> dict[str, Any]:
        """Return the part and the sampling as JSON data."""
        return {
            "part": self.exam.part,
            "drawn": self.exam.sample_unit_text,
            "examples": self.exam.size,
            "samples": self.sampling.samples,
            "seed": self.sampling.seed,
        }

    def build_run_json(self, report: EvaluationReport) -> dict[str, Any]:
        """Return all metrics of a run, and the counts behind them, as JSON data."""
        assert isinstance(report, LanguageReport)
        return {
            **report.count_text(),
            "values": {name: metric.value for name, metric in report.metrics.items()},
            "metrics": {name: asdict(value) for name, value in report.intervals.items()},
            "against_first": {name: asdict(value) for name, value in report.tests.items()},
        }
