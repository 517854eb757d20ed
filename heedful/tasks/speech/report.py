"""How recognisers are told of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, final

from heedful.inspection.page import Table
from heedful.tasks.report import Comparison, Report, number, span
from heedful.tasks.speech.exam import Heard, SpeechExam


@final
@dataclass(frozen=True, repr=False)
class SpeechReport(Report):
    """Errors, each with its interval."""

    digits: ClassVar = 2

    exam: SpeechExam
    answers: Heard

    def text(self) -> str:
        """A line for each metric."""
        heard = self.answers
        lines = [
            f"{self.system.name}: {self.exam.part or self.exam.text}, {self.exam.size:,} recordings of "
            f"{heard.sound:,.0f} s together, heard in {heard.seconds:.1f} s",
            "",
            f"{'metric':<16}  {'percent':>7}  95 % interval",
        ]
        lines += [f"{name:<16}  {each.value:>7.2f}  {span(each, 2)}" for name, each in self.intervals.items()]
        return "\n".join(lines)

    def content(self) -> dict[str, Any]:
        """The same."""
        return {
            "part": self.exam.part,
            "recordings": self.exam.size,
            "sound_seconds": self.answers.sound,
            "seconds": self.answers.seconds,
            "metrics": {name: asdict(each) for name, each in self.intervals.items()},
        }


@final
@dataclass(frozen=True, repr=False)
class SpeechComparison(Comparison):
    """Errors of several runs."""

    reports: tuple[SpeechReport, ...]

    @property
    def heading(self) -> str:
        """How many recordings."""
        return f"{self.counted} of {self.recipes[0].task} on {self.exam.size:,} recordings of {self.exam.text}"

    def results(self) -> Table:
        """A row for each run."""
        columns = ["run", "model", "parameters", "minutes", "heard in s"]
        for name in self.reports[0].metrics:
            columns += [name, "95 % interval", "p"]
        rows = []
        for report, kind in zip(self.reports, self.kinds, strict=True):
            facts = report.system.told
            row = [report.system.label, kind, f"{facts.parameters:,}", number(facts.minutes, ".1f")]
            row.append(f"{report.answers.seconds:.1f}")
            for name, found in report.intervals.items():
                test = report.tests.get(name)
                row += [f"{found.value:.2f}", span(found, 2), number(test.p_value if test else None, ".3f")]
            rows.append(row)
        return Table("", columns, rows, self.notes())

    def remarks(self) -> Iterator[str]:
        """What the columns mean."""
        if len(self.reports) > 1:
            yield (
                f"p: how often chance alone makes a difference from {self.reports[0].system.name} at least this large "
                f"(paired bootstrap, {self.sampling.samples:,} samples)"
            )

    def pictures(self) -> list[str]:
        """How the runs learned."""
        return self.curves()

    def content(self) -> dict[str, Any]:
        """What was drawn."""
        return {"recordings": self.exam.size, "samples": self.sampling.samples, "seed": self.sampling.seed}

    def record(self, report: Report) -> dict[str, Any]:
        """All metrics."""
        return {
            "metrics": {name: asdict(each) for name, each in report.intervals.items()},
            "against_first": {name: asdict(each) for name, each in report.tests.items()},
        }
