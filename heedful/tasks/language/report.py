"""How language models are told of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, final

from heedful.inspection.page import Table
from heedful.metrics.metric import Metric
from heedful.tasks.language.exam import Surprised, TextExam
from heedful.tasks.report import Comparison, Report, number, span

_PER_TOKEN: Final = ("loss", "perplexity")
_MAIN: Final = "bits_per_byte"


@final
@dataclass(frozen=True, repr=False)
class LanguageReport(Report):
    """Loss, perplexities and bits, and the counts that they come from."""

    exam: TextExam
    answers: Surprised

    @property
    def resampled(self) -> Mapping[str, Metric]:
        """What is finite; of tokens only what is of the same ones as the first system's."""
        alike = self.first is None or self.first.system.told.vocabulary == self.system.told.vocabulary
        return {
            name: metric
            for name, metric in self.metrics.items()
            if math.isfinite(metric.value) and (alike or name not in _PER_TOKEN)
        }

    def text(self) -> str:
        """A line for each number."""
        found, values = self.answers, {name: metric.value for name, metric in self.metrics.items()}
        documents = found.total("ends")
        ends = f" and {documents:,} {'end' if documents == 1 else 'ends'}"
        rows = (
            ("loss", "loss", f"nats per token, {found.total('tokens'):,} tokens"),
            ("perplexity", "perplexity", "per token"),
            ("word perplexity", "word_perplexity", f"{found.total('words'):,} words{ends}"),
            ("  with line ends", "word_perplexity_with_line_ends", self._with_line_ends()),
            ("character perplexity", "character_perplexity", f"{found.total('characters'):,} characters{ends}"),
            ("bits per character", "bits_per_character", ""),
            ("bits per byte", "bits_per_byte", f"{found.total('bytes'):,} bytes{ends}"),
        )
        lines = [f"{self.system.name}: {self.exam.part}"]
        lines += [f"{shown:<20}  {values[name]:12.4f}  {about}".rstrip() for shown, name, about in rows]
        least = found.context - found.stride
        lines.append(
            f"context {found.context:,}, stride {found.stride:,}: each token follows at least {least:,}, or all there "
            "are"
        )
        if unknown := found.total("unknown"):
            lines.append(f"{unknown:,} tokens are unknown: what they stand for is counted, and not predicted")
        return "\n".join(lines)

    def _with_line_ends(self) -> str:
        """What is counted as words where perplexities are published of the Penn Treebank and WikiText."""
        found = self.answers
        told = f"{found.total('words'):,} words and {found.total('lines'):,} line ends, as of PTB and WikiText"
        unpredicted = found.total("lines") > found.total("ends") and not found.keeps_lines
        return f"{told}; this model does not predict line ends, so published ones are harder" if unpredicted else told

    def content(self) -> dict[str, Any]:
        """The same."""
        return {"part": self.exam.part, **{name: each.value for name, each in self.metrics.items()}, **self.counts()}

    def counts(self) -> dict[str, Any]:
        """How much text it was, and how it was read."""
        found = self.answers
        return {
            "nats": math.fsum(found.nats),
            "tokens": found.total("tokens"),
            "unknown": found.total("unknown"),
            "documents": found.total("ends"),
            "words": found.total("words"),
            "line_ends": found.total("lines"),
            "characters": found.total("characters"),
            "bytes": found.total("bytes"),
            "context": found.context,
            "stride": found.stride,
        }


@final
@dataclass(frozen=True, repr=False)
class LanguageComparison(Comparison):
    """Bits per byte, which need no common vocabulary; perplexity per token for runs that have one."""

    reports: tuple[LanguageReport, ...]

    @property
    def exam(self) -> TextExam:
        """What was asked."""
        return self.reports[0].exam

    @property
    def heading(self) -> str:
        """How much of which text."""
        words = self.reports[0].answers.total("words")
        return f"{self.counted} of language_modelling on {words:,} words of {self.exam.text}"

    def results(self) -> Table:
        """A row for each run."""
        columns = ["run", "model", "parameters", "minutes", "train tok/s", "context", "bits/byte", "95 % interval", "p"]
        rows = []
        for report, kind in zip(self.reports, self.kinds, strict=True):
            facts, values = report.system.told, {name: metric.value for name, metric in report.metrics.items()}
            test, own = report.tests.get("perplexity"), self.is_alike(report)
            rows.append(
                [
                    report.system.label,
                    kind,
                    f"{facts.parameters:,}",
                    number(facts.minutes, ".1f"),
                    number(facts.tokens_per_second, ",.0f"),
                    f"{report.answers.context:,}",
                    f"{values[_MAIN]:.4f}",
                    span(report.intervals[_MAIN], 4),
                    number(report.tests[_MAIN].p_value if report.tests else None, ".3f"),
                    f"{values['bits_per_character']:.4f}",
                    f"{values['word_perplexity']:,.2f}",
                    f"{values['word_perplexity_with_line_ends']:,.2f}",
                    number(values["perplexity"] if own else None, ",.3f"),
                    number(test.p_value if test else None, ".3f"),
                ]
            )
        columns += ["bits/character", "word perplexity", "with line ends", "perplexity", "p"]
        return Table("", columns, rows, self.notes())

    def remarks(self) -> Iterator[str]:
        """What the columns mean, and which runs predict another text than the first."""
        first, *others = self.reports
        name = first.system.name
        if others:
            yield (
                f"p: how often chance alone makes a difference from {name} at least this large (paired bootstrap, "
                f"{self.sampling.samples:,} samples of {self.exam.drawn})"
            )
        if not all(map(self.is_alike, others)):
            yield f"perplexity is per token, so it is shown only for runs with the vocabulary of {name}"
        size = first.answers.total("bytes")
        for other in others:
            if (theirs := other.answers.total("bytes")) != size:
                yield (
                    f"{other.system.name}: its tokenizer reads the text as {theirs:,} bytes, that of {name} as "
                    f"{size:,}; they do not predict quite the same"
                )
        for report in self.reports:
            if unknown := report.answers.total("unknown"):
                yield f"{report.system.name}: {unknown:,} tokens are unknown: that is predicted, and not what they are"

    def pictures(self) -> list[str]:
        """Bits by size, and how the runs learned."""
        plot = self.by_size(_MAIN, title="Bits per byte", y_name="bits per byte, with their 95 % interval")
        return [plot, *self.curves()]

    def content(self) -> dict[str, Any]:
        """What was drawn."""
        return {
            "part": self.exam.part,
            "drawn": self.exam.drawn,
            "examples": self.exam.size,
            "samples": self.sampling.samples,
            "seed": self.sampling.seed,
        }

    def record(self, report: Report) -> dict[str, Any]:
        """All metrics, and the counts that they come from."""
        assert isinstance(report, LanguageReport)
        return {
            **report.counts(),
            "values": {name: metric.value for name, metric in report.metrics.items()},
            "metrics": {name: asdict(each) for name, each in report.intervals.items()},
            "against_first": {name: asdict(each) for name, each in report.tests.items()},
        }
