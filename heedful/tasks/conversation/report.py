"""How models of conversation are told of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, final

from heedful.inspection.page import Table
from heedful.tasks.conversation.exam import ORDER, ReplyExam, Surprised
from heedful.tasks.report import Comparison, Report, number, span

_MAIN: Final = "word_perplexity"


@final
@dataclass(frozen=True, repr=False)
class ConversationReport(Report):
    """Perplexities of replies, with and without the turns before them, beside n-grams."""

    exam: ReplyExam
    answers: Surprised

    def text(self) -> str:
        """A line for each."""
        values = {name: metric.value for name, metric in self.metrics.items()}
        tokens, words = int(self.answers.tokens.sum()), int(self.answers.words.sum())
        lines = [
            f"{self.system.name}: {self.exam.part}, {self.exam.size:,} replies",
            f"{'perplexity':<32}  {'per token':>10}  {'per word':>10}",
        ]
        for shown, before, behind in (
            ("the model", "", ""),
            ("the model without past turns", "", "_without_context"),
            (f"Kneser-Ney, {ORDER}-grams", "kneser_ney_", ""),
        ):
            found = (values[f"{before}{name}{behind}"] for name in ("perplexity", "word_perplexity"))
            lines.append(f"{shown:<32}  {next(found):>10.4f}  {next(found):>10.4f}")
        lines.append(f"{tokens:,} tokens and {words:,} words, the end of each reply among them")
        return "\n".join(lines)

    def content(self) -> dict[str, Any]:
        """The same."""
        values = {name: metric.value for name, metric in self.metrics.items()}
        return {"part": self.exam.part, "replies": self.exam.size, **values, **self.counts()}

    def counts(self) -> dict[str, int]:
        """How much text it was."""
        return {"tokens": int(self.answers.tokens.sum()), "words": int(self.answers.words.sum())}


@final
@dataclass(frozen=True, repr=False)
class ConversationComparison(Comparison):
    """Perplexities per word, which need no common vocabulary."""

    reports: tuple[ConversationReport, ...]

    @property
    def heading(self) -> str:
        """How much of which text."""
        return f"{self.counted} of {self.recipes[0].task} on {self.exam.size:,} replies of {self.exam.text}"

    def results(self) -> Table:
        """A row for each run."""
        rows = []
        for report, kind in zip(self.reports, self.kinds, strict=True):
            facts, values = report.system.told, {name: metric.value for name, metric in report.metrics.items()}
            rows.append(
                [
                    report.system.label,
                    kind,
                    f"{facts.parameters:,}",
                    number(facts.minutes, ".1f"),
                    f"{values[_MAIN]:.3f}",
                    span(report.intervals[_MAIN], 3),
                    number(report.tests[_MAIN].p_value if report.tests else None, ".3f"),
                    f"{values['word_perplexity_without_context']:.3f}",
                    f"{values['kneser_ney_word_perplexity']:.3f}",
                ]
            )
        columns = ["run", "model", "parameters", "minutes", "word perplexity", "95 % interval", "p", "without context"]
        return Table("", [*columns, "Kneser-Ney"], rows, self.notes())

    def remarks(self) -> Iterator[str]:
        """What the columns mean."""
        if len(self.reports) > 1:
            yield (
                f"p: how often chance alone makes a difference from {self.reports[0].system.name} at least this large "
                f"(paired bootstrap, {self.sampling.samples:,} samples of replies)"
            )
        yield f"Kneser-Ney: {ORDER}-grams of the training dialogues in the tokens of the run"

    def pictures(self) -> list[str]:
        """Perplexity by size, and how the runs learned."""
        plot = self.by_size(_MAIN, title="Perplexity per word", y_name="perplexity per word, with its 95 % interval")
        return [plot, *self.curves()]

    def content(self) -> dict[str, Any]:
        """What was drawn."""
        sampling = {"samples": self.sampling.samples, "seed": self.sampling.seed}
        return {"part": self.exam.part, "replies": self.exam.size, **sampling}

    def record(self, report: Report) -> dict[str, Any]:
        """All metrics, and the counts that they come from."""
        assert isinstance(report, ConversationReport)
        return {
            **report.counts(),
            "metrics": {name: asdict(each) for name, each in report.intervals.items()},
            "against_first": {name: asdict(each) for name, each in report.tests.items()},
        }
