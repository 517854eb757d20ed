"""Exams whose answers are labels, beside what is right most often: their reports, and what many examples are worth."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar, Final, Self, final

from heedful.data.chance import require_enough
from heedful.inspection.page import Table
from heedful.inspection.plots import Level, Line, line_plot
from heedful.inspection.scales import LOGARITHMIC
from heedful.metrics.bootstrap import PairedTest, paired_tests
from heedful.metrics.metric import Metric
from heedful.recipes.recipe import Recipe, TunedRecipe
from heedful.tasks.exam import Exam
from heedful.tasks.report import NONE, Comparison, Report, System, number, span

LOWER_IS_BETTER: Final = frozenset({"error"})
"""Metrics of which less is more."""


@dataclass(eq=False)
class LabelledExam(Exam):
    """Examples of which something is right most often.

    Attributes:
        ask: what a trained model, as its users see it, says of the examples.
        measure: what such answers are worth.
        total: how many examples there are to learn from.
        constant: what is right most often in the training text; empty for saying nothing, None where each example has
            candidates of its own.
        baseline: that answer to each example.
        main: the metric that is looked at first.
    """

    asked: Sequence[Hashable]
    right: Sequence[Hashable]
    _: KW_ONLY
    ask: Callable[[Any], Any]
    measure: Callable[[Any], Mapping[str, Metric]]
    size: int
    total: int
    constant: Any
    baseline: Any
    main: str
    remarks: Sequence[str] = ()

    def answers(self, user: Any, recipe: Recipe) -> Any:
        """Labels."""
        return self.ask(user)

    def metrics(self, answers: Any) -> Mapping[str, Metric]:
        """See `measure`."""
        return self.measure(answers)

    @property
    def always(self) -> str:
        """What the baseline says, in words."""
        if self.constant is None:
            return "a name that is like the others"
        return (f"{self.constant:.4g}" if isinstance(self.constant, float) else f"{self.constant}") or "no answer"

    @property
    def same(self) -> str:
        """The class or number that is right of all examples, in words; empty where there are several, or one
        example.
        """
        labels = {label if isinstance(label, str | float) else None for label in self.right}
        label = labels.pop()
        return "" if labels or label is None or len(self.right) == 1 else repr(label)

    def verdict(self, metrics: Mapping[str, float], *, answers: Any = None, error: float | None = None) -> str:
        """What is to be said of a model that is not better than the baseline; empty where it is better.

        Answers that are numbers are compared by their mean squared error, since the mean, said of every example, has
        no correlation with anything; all others by the first metric that both have.

        Args:
            metrics: what the model has reached, by name.
            answers: what it said of each example, where that is known.
            error: the mean squared error of its numbers, where that is known instead.
        """
        if isinstance(self.constant, float):
            golds = [float(str(label)) for label in self.right]
            if answers is not None:
                error = fmean((answer - gold) ** 2 for answer, gold in zip(answers, golds, strict=True))
            always = fmean((self.constant - gold) ** 2 for gold in golds)
            if error is None or error < always:
                return ""
            return _no_better(f"a mean squared error of {error:.4g}", f"always {self.always} has {always:.4g}")
        if self.constant is None:
            return ""
        baseline = self.metrics(self.baseline)
        name = next((name for name in (self.main, *baseline) if name in metrics and name in baseline), None)
        if name is None:
            return ""
        reached, always = metrics[name], baseline[name].value
        if reached < always if name in LOWER_IS_BETTER else reached > always:
            return ""
        return _no_better(f"{name} {reached:.4f}", f"always {self.always} has {always:.4f}")

    def examples_of(self, recipe: Recipe) -> int:
        """How many examples a run learns from."""
        return recipe.drawn("train") or self.total

    def require(self, recipe: Recipe) -> None:
        """`RecipeError` where there are fewer examples than it wants to learn from."""
        if (count := recipe.drawn("train")) is not None:
            require_enough(count, self.total)

    @final
    def placed(self, part: str, text: str, *, table: str) -> Self:
        """The same, knowing where in a recipe it stands."""
        found = copy(self)
        found.part, found.text, found.places = part, text, (f"{table}.{part}",)
        return found


def _no_better(reached: str, always: str) -> str:
    return (
        f"the model is not better than the same answer to everything: it has {reached}, and {always}; "
        "check the labels, train longer on more examples, or begin with a pre-trained model"
    )


@dataclass(frozen=True, repr=False)
class LabelledReport(Report):
    """What a model reaches, beside always giving the most frequent answer of the training text."""

    exam: LabelledExam

    def text(self) -> str:
        """A line for each metric, and what is to be said of them."""
        return "\n\n".join([self.heading, self.table(), *self.warnings])

    @property
    def warnings(self) -> Sequence[str]:
        """That the model is not better than the baseline, or that the examples cannot tell."""
        if same := self.exam.same:
            return (f"warning: all {self.exam.size:,} examples have the label {same}, which tells nothing of a model",)
        found = self.exam.verdict({name: metric.value for name, metric in self.metrics.items()}, answers=self.answers)
        return (f"warning: {found}",) if found else ()

    @property
    def heading(self) -> str:
        """Who was asked how much."""
        return f"{self.system.name}: {self.exam.part}, {self.exam.size:,} examples"

    def table(self) -> str:
        """A line for each metric, without a heading."""
        width = max(14, *map(len, self.metrics))
        lines = [f"{'metric':<{width}}  {'value':>8}  always {self.exam.always}"]
        baseline = self._baseline
        for name, metric in self.metrics.items():
            base = f"{baseline[name]:.4f}" if name in baseline else ""
            lines.append(f"{name:<{width}}  {metric.value:>8.4f}  {base}".rstrip())
        return "\n".join(lines)

    def content(self) -> dict[str, Any]:
        """Values, and those of the baseline."""
        return {
            "part": self.exam.part,
            "examples": self.exam.size,
            "metrics": {name: metric.value for name, metric in self.metrics.items()},
            "baseline": self._baseline,
            "answer": self.exam.constant,
            "warnings": list(self.warnings),
        }

    @cached_property
    def _baseline(self) -> dict[str, float]:
        return {name: metric.value for name, metric in self.exam.metrics(self.exam.baseline).items()}


@final
@dataclass(frozen=True, repr=False)
class LabelledComparison(Comparison):
    """Runs in one exam, beside what needs no model."""

    free: ClassVar = ("model.", "tokenizer.", "data.examples")
    subject: ClassVar = "model and examples"

    reports: tuple[LabelledReport, ...]

    @property
    def exam(self) -> LabelledExam:
        """What was asked."""
        return self.reports[0].exam

    @cached_property
    def baseline(self) -> Report:
        """What is reached without reading."""
        name = "the candidate most like the others" if self.exam.constant is None else f"always {self.exam.always}"
        first = self.reports[0]
        return type(first)(self.exam, System(name), self.exam.baseline, self.sampling, first)

    @cached_property
    def families(self) -> list[list[Report]]:
        """Runs that differ in how many examples they learned from, by that number."""
        found: dict[str, list[Report]] = {}
        for report in self.reports:
            found.setdefault(_without_examples(report.system.told.recipe), []).append(report)
        return [sorted(reports, key=self._examples) for reports in found.values()]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Their names, the one that is looked at first at the front."""
        main = self.exam.main
        return (main, *(name for name in self.baseline.metrics if name != main))

    @property
    def heading(self) -> str:
        """Of which task how much."""
        return f"{self.counted} of {self.recipes[0].task}, {self.exam.size:,} answers about {self.exam.text}"

    def results(self) -> Table:
        """A row for each run, and one for the baseline."""
        columns = ["run", "model", "start", "examples", "learned", "minutes"]
        for name in self.metrics:
            columns += [name, "95 % interval", "p"]
        rows = []
        for report, kind in zip(self.reports, self.kinds, strict=True):
            facts = report.system.told
            about = [report.system.label, kind, _start(facts.recipe), f"{self._examples(report):,}"]
            about += [f"{facts.learned:,}", number(facts.minutes, ".1f")]
            rows.append([*about, *self._cells(report)])
        without = [self.baseline.system.name, NONE, NONE, f"{self.exam.total:,}", "0", NONE]
        return Table("", columns, [*rows, [*without, *self._cells(self.baseline)]], self.notes())

    def _cells(self, report: Report) -> list[str]:
        cells: list[str] = []
        for name in self.metrics:
            found, test = report.intervals[name], report.tests.get(name)
            cells += [f"{found.value:.4f}", span(found, 4), number(test.p_value if test else None, ".3f")]
        return cells

    def remarks(self) -> list[str]:
        """What the columns mean."""
        return [
            "learned: parameters that training changes",
            f"p: how often chance alone makes a difference from {self.reports[0].system.name} at least this large "
            f"(paired bootstrap, {self.sampling.samples:,} samples)",
        ]

    def tables(self) -> list[Table]:
        """A row for each family, where one of them has several sizes."""
        if all(len(family) == 1 for family in self.families):
            return []
        sizes = sorted({self._examples(report) for report in self.reports})
        name, first = self.metrics[0], self._name(self.families[0])
        rows = []
        for family in self.families:
            values = {self._examples(report): f"{report.metrics[name].value:.4f}" for report in family}
            for size, found in self._against_first(family).items():
                values[size] += f" ({found.p_value:.3f})"
            rows.append([self._name(family), *(values.get(size, NONE) for size in sizes)])
        notes = [] if len(rows) == 1 else [f"in brackets p of the difference from {first} with as many examples"]
        return [Table(f"{name} by examples learned from", ["runs", *(f"{size:,}" for size in sizes)], rows, notes)]

    def pictures(self) -> list[str]:
        """Each metric by the number of examples."""
        return [self._plot(name) for name in self.metrics]

    def content(self) -> dict[str, Any]:
        """What was asked and drawn, the baseline, and the families."""
        return {
            "examples": self.exam.size,
            "samples": self.sampling.samples,
            "seed": self.sampling.seed,
            "metrics": list(self.metrics),
            "baseline": {"answer": self.exam.constant, **_scores(self.baseline)},
            "families": [
                {
                    "name": self._name(family),
                    "runs": [report.system.name for report in family],
                    "against_first": {str(n): asdict(each) for n, each in self._against_first(family).items()},
                }
                for family in self.families
            ],
        }

    def record(self, report: Report) -> dict[str, Any]:
        """What it began with, how much it learned from, and what it reached."""
        recipe = report.system.told.recipe
        init = recipe.init if isinstance(recipe, TunedRecipe) else None
        return {
            "init": None if init is None else str(init),
            "freeze": getattr(recipe.training, "freeze", 0),
            "examples": self._examples(report),
            **_scores(report),
        }

    def _examples(self, report: Report) -> int:
        return self.exam.examples_of(report.system.told.recipe)

    def _name(self, family: Sequence[Report]) -> str:
        """What the names of runs have in common, without the numbers of examples behind it; else that of the first."""
        stems = {report.system.name.removesuffix(f"-{self._examples(report)}") for report in family}
        return stems.pop() if len(stems) == 1 else family[0].system.name

    def _against_first(self, family: Sequence[Report]) -> dict[int, PairedTest]:
        """The first metric beside that of the first family with as many examples."""
        if family[0] is self.families[0][0]:
            return {}
        others, name = {self._examples(report): report for report in self.families[0]}, self.metrics[0]
        pairs = [(others[size], report) for report in family if (size := self._examples(report)) in others]
        return {
            self._examples(report): paired_tests(
                {name: other.metrics[name]}, {name: report.metrics[name]}, self.sampling
            )[name]
            for other, report in pairs
        }

    def _plot(self, name: str) -> str:
        lines = []
        for family in self.families:
            found = [(self._examples(report), report.intervals[name]) for report in family]
            points = tuple((examples, each.value) for examples, each in found)
            lines.append(Line(self._name(family), points, band=tuple((each.low, each.high) for _, each in found)))
        return line_plot(
            lines,
            title=f"{name} by examples learned from",
            x_name="examples learned from",
            y_name=f"{name}, with its 95 % interval",
            x_ticks=[(size, f"{size:,}") for size in sorted({self._examples(report) for report in self.reports})],
            x_scale=LOGARITHMIC,
            levels=[Level(self.baseline.system.name, self.baseline.metrics[name].value)],
        )


def _scores(report: Report) -> dict[str, Any]:
    return {
        "metrics": {name: asdict(each) for name, each in report.intervals.items()},
        "against_first": {name: asdict(each) for name, each in report.tests.items()},
    }


def _start(recipe: Recipe) -> str:
    """What a model begins with, and what of it stands still."""
    if not isinstance(recipe, TunedRecipe) or recipe.init is None:
        return "scratch"
    match getattr(recipe.training, "freeze", 0):
        case "encoder":
            return f"{recipe.init.name}, frozen"
        case 0:
            return recipe.init.name
        case layers:
            return f"{recipe.init.name}, {layers} frozen"


def _without_examples(recipe: Recipe) -> str:
    """What recipes have in common that differ in nothing but how many examples are learned from, and where to."""
    table = recipe.model_dump(mode="json", exclude={"output"})
    members: Mapping[str, Any] = table.get("tasks") or {"": table}
    for member in members.values():
        member["data"].pop("examples", None)
    return repr(table)
