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

from heedful.inspection.page import Table, html_page, page_text
from heedful.inspection.plots import Line, line_plot
from heedful.inspection.scales import LOGARITHMIC
from heedful.metrics.bootstrap import Interval, PairedTest, Sampling, intervals, paired_tests
from heedful.metrics.metric import Metric
from heedful.recipes.recipe import Recipe
from heedful.tasks.exam import Exam
from heedful.tasks.facts import Facts, differences, kinds, tables_of
from heedful.version import __version__

NONE: Final = "-"


@dataclass(frozen=True)
class System:
    """Who answered: a run, which has `facts`, or something that has none, such as a file."""

    name: str
    facts: Facts | None = None

    @property
    def label(self) -> str:
        """The name, with a star where training is not finished."""
        return f"{self.name} *" if self.facts is not None and not self.facts.finished else self.name

    @property
    def told(self) -> Facts:
        """The facts, where there must be some."""
        assert self.facts is not None, f"{self.name} is no run"
        return self.facts


@dataclass(frozen=True)
class Report(ABC):
    """What a system's answers are worth, alone and beside another's.

    Attributes:
        exam: what was asked.
        system: who answered.
        answers: what it said.
        sampling: how intervals and tests are drawn.
        first: what it is tested against, if anything.
    """

    digits: ClassVar[int] = 4

    exam: Exam
    system: System
    answers: Any
    sampling: Sampling
    first: Report | None = None

    @cached_property
    def metrics(self) -> Mapping[str, Metric]:
        """By their names."""
        return self.exam.metrics(self.answers)

    @property
    def resampled(self) -> Mapping[str, Metric]:
        """Those that have intervals and are tested."""
        return self.metrics

    @cached_property
    def intervals(self) -> Mapping[str, Interval]:
        """Each with where it may lie."""
        return intervals(self.resampled, self.sampling)

    @cached_property
    def tests(self) -> Mapping[str, PairedTest]:
        """Each beside that of the first system; none for that system itself."""
        if self.first is None:
            return {}
        mine = self.resampled
        theirs = {name: metric for name, metric in self.first.resampled.items() if name in mine}
        return paired_tests(theirs, {name: mine[name] for name in theirs}, self.sampling)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text())}</pre>"

    def places(self, _name: str) -> int:
        """Digits behind the point that a metric is told with."""
        return self.digits

    @abstractmethod
    def text(self) -> str:
        """Alone, for a terminal: plain lines, for what a signature says must never be cut to its width."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Alone, as JSON has it."""

    def page(self, tick: Callable[[int, int | None], None] = lambda _, __: None) -> str:
        """Answers that are worth looking at, as a web page, where a task understands `Asking.paged`.

        Args:
            tick: told how many examples to learn from have been read, and how many will be, None before that is known.
        """
        raise NotImplementedError("this task has no page of its answers")

    @final
    def beside(self) -> str:
        """The tests, for a terminal."""
        width = max(6, *map(len, self.tests))
        lines = [f"against {self.system.name} (paired bootstrap)"]
        for each in self.tests.values():
            found, form = each.difference, f".{self.places(each.name)}f"
            lines.append(
                f"  {each.name:<{width}} {each.first.value:{form}} and {each.second.value:{form}}: difference "
                f"{found.value:+{form}} ({found.low:+{form}} to {found.high:+{form}}), p = {each.p_value:.3f}"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class Comparison(ABC):
    """Runs in one exam, side by side.

    Attributes:
        reports: in the order in which they were named; the first is what the others are tested against.
        device: where they answered.
        threads: of the processor that took part.
    """

    free: ClassVar[tuple[str, ...]] = ("model.",)
    """Keys in which recipes may differ without a word."""
    subject: ClassVar[str] = "the model"
    """What these are about."""

    reports: tuple[Report, ...]
    device: str
    threads: int

    @property
    def exam(self) -> Exam:
        """What was asked."""
        return self.reports[0].exam

    @property
    def sampling(self) -> Sampling:
        """How intervals and tests were drawn."""
        return self.reports[0].sampling

    @property
    def counted(self) -> str:
        """How many runs, in words."""
        return f"{len(self.reports)} runs" if len(self.reports) > 1 else "1 run"

    @cached_property
    def recipes(self) -> list[Recipe]:
        """How the runs were made."""
        return [report.system.told.recipe for report in self.reports]

    @cached_property
    def kinds(self) -> list[str]:
        """The kind of each model, told apart."""
        return kinds(self.recipes)

    @cached_property
    def differences(self) -> dict[str, list[Any]]:
        """Keys in which the recipes differ."""
        return differences(self.recipes)

    @property
    @abstractmethod
    def heading(self) -> str:
        """What is compared."""

    @abstractmethod
    def results(self) -> Table:
        """A row for each run."""

    def tables(self) -> Sequence[Table]:
        """Further ones."""
        return ()

    @abstractmethod
    def pictures(self) -> Sequence[str]:
        """As SVG, the most telling one first."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """What JSON has besides the runs."""

    @abstractmethod
    def record(self, report: Report) -> dict[str, Any]:
        """What JSON has of a run besides its facts."""

    def remarks(self) -> Iterable[str]:
        """Notes below the results."""
        return ()

    def by_size(self, metric: str, *, title: str, y_name: str) -> str:
        """A metric of each run, with its interval, over the number of its parameters."""
        lines = []
        for report in self.reports:
            found = report.intervals[metric]
            points = ((report.system.told.parameters, found.value),)
            lines.append(Line(report.system.label, points, spread=((found.low, found.high),)))
        sizes = sorted({report.system.told.parameters for report in self.reports})
        return line_plot(
            lines,
            title=f"{title} by parameters",
            x_name="parameters",
            y_name=y_name,
            x_ticks=[(size, f"{size:,}") for size in sizes],
            x_scale=LOGARITHMIC,
        )

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        tables = (self.results(), *self.tables())
        return "\n".join([page_text(self.heading), *(table.html() for table in tables), self.figure()])

    @final
    def text(self) -> str:
        """For a terminal: plain lines, whatever its width."""
        return f"{self.heading}\n\n" + "\n".join(table.text() for table in (self.results(), *self.tables()))

    @final
    def html(self) -> str:
        """A page that needs nothing else."""
        names = [report.system.name for report in self.reports]
        rows = [[key, *map(_value, values)] for key, values in self.differences.items()]
        differing = [Table("How the recipes differ", ["key", *names], rows)] if rows else []
        return html_page(self.heading, tables=[self.results(), *self.tables(), *differing], pictures=self.pictures())

    @final
    def figure(self) -> str:
        """The most telling picture, as SVG."""
        return self.pictures()[0]

    @final
    def json(self) -> str:
        """All numbers."""
        content = {
            "heedful": __version__,
            "task": self.recipes[0].task,
            "text": self.exam.text,
            **self.content(),
            "device": self.device,
            "threads": self.threads,
            "runs": [
                _facts(report.system, kind)
                | self.record(report)
                | {"curve": [asdict(point) for point in report.system.told.curve]}
                for report, kind in zip(self.reports, self.kinds, strict=True)
            ],
            "differences": self.differences,
            "notes": self.notes(),
        }
        return json.dumps(_finite(content), indent=2, allow_nan=False, ensure_ascii=False) + "\n"

    @final
    def notes(self) -> list[str]:
        """What must be known to read the results."""
        notes = [
            f"* {name} is not finished: its best checkpoint so far (step {facts.step:,}) is compared"
            for name, facts in ((report.system.name, report.system.told) for report in self.reports)
            if not facts.finished
        ]
        notes += self.remarks()
        if besides := [key for key in self.differences if not key.startswith(self.free)]:
            notes.append(f"besides {self.subject}, the recipes differ in {', '.join(tables_of(besides))}")
        return notes

    def is_alike(self, report: Report) -> bool:
        """Whether its tokens are those of the first run."""
        return report.system.told.vocabulary == self.reports[0].system.told.vocabulary

    def curves(self) -> list[str]:
        """The losses of the validation text, two plots for each group of runs whose losses are of the same tokens."""
        groups: dict[tuple[str, str], list[Report]] = {}
        for report in self.reports:
            facts = report.system.told
            validation = facts.recipe.data.validation.model_dump_json()
            groups.setdefault((facts.vocabulary, validation), []).append(report)
        return [
            plot
            for reports in groups.values()
            if any(report.system.told.curve for report in reports)
            for plot in _curves(reports, alone=len(groups) == 1)
        ]


def number(value: float | None, form: str) -> str:
    """The number as `format` writes it, a dash for none."""
    return NONE if value is None else format(value, form)


def span(interval: Interval, digits: int) -> str:
    """Where a score may lie."""
    return f"{interval.low:.{digits}f} to {interval.high:.{digits}f}"


def _facts(system: System, kind: str) -> dict[str, Any]:
    facts = system.told
    return {
        "run": system.name,
        "model": kind,
        "finished": facts.finished,
        "step": facts.step,
        "parameters": facts.parameters,
        "learned": facts.learned,
        "minutes": facts.minutes,
        "training_tokens_per_second": facts.tokens_per_second,
        "vocabulary": facts.vocabulary,
    }


def _finite(content: Any) -> Any:
    """JSON knows no infinity."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _value(value: Any) -> str:
    """As TOML writes it, more or less; a dash where a recipe has no such key."""
    if value is None:
        return NONE
    return str(value).lower() if isinstance(value, bool) else str(value)


def _curves(reports: Sequence[Report], *, alone: bool) -> list[str]:
    told = [(report.system.label, report.system.told.curve) for report in reports]
    by_minutes = [Line(label, tuple((p.minutes, p.loss) for p in curve)) for label, curve in told]
    by_updates = [Line(label, tuple((float(p.step), p.loss) for p in curve)) for label, curve in told]
    whose = "" if alone else f" with the vocabulary and the validation text of {reports[0].system.name}"
    return [
        line_plot(
            lines, title=f"Validation loss by {unit}{whose}", x_name=f"{unit} of training", y_name="nats per token"
        )
        for unit, lines in (("minutes", by_minutes), ("updates", by_updates))
    ]
