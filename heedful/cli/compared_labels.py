"""What `heedful compare` found about classifiers, taggers or answerers, as text, as a page and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from heedful.cli.comparison import Compared
from heedful.cli.comparison_tables import NONE, difference_table, number, unfinished
from heedful.inspection.page import Table, html_page
from heedful.inspection.plots import Level, Line, line_plot
from heedful.inspection.scales import LOGARITHMIC
from heedful.metrics.bootstrap import Comparison
from heedful.runs.facts import Facts, differences, kinds
from heedful.runs.judge import Judge, Judgement, families, start
from heedful.tasks.benchmarks.definitions import Prediction
from heedful.tasks.fine_tuning import FineTuningRecipe
from heedful.version import __version__


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        facts: what its folder says.
        recipe: how it was made.
        examples: how many it learned from.
        answers: what it said.
        judgement: what that is worth.
    """

    facts: Facts
    recipe: FineTuningRecipe
    examples: int
    answers: Sequence[Any]
    judgement: Judgement


@dataclass(frozen=True)
class Baseline:
    """What is reached without reading: by the most frequent answer of the training text."""

    constant: Prediction | None
    judgement: Judgement

    @property
    def name(self) -> str:
        """What it does, in words."""
        if self.constant is None:
            return "the candidate most like the others"
        shown = f"{self.constant:.4g}" if isinstance(self.constant, float) else str(self.constant)
        return f"always {shown or 'no answer'}"


@dataclass(frozen=True)
class ComparedLabels(Compared):
    """Runs in one exam.

    Attributes:
        rows: in the order in which they were named; the first is what the others are tested against.
        baseline: what needs no model.
        judge: how they were compared.
        text_name: the files of the examples that they were asked.
    """

    rows: tuple[Row, ...]
    baseline: Baseline
    judge: Judge
    text_name: str

    @cached_property
    def differences(self) -> dict[str, list[Any]]:
        """Keys in which the recipes differ."""
        return differences([row.recipe for row in self.rows])

    @cached_property
    def families(self) -> list[list[Row]]:
        """Runs that differ in how many examples they learned from, by that number."""
        found = families([row.recipe for row in self.rows])
        return [sorted((self.rows[i] for i in numbers), key=lambda row: row.examples) for numbers in found]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Their names, the one that is looked at first at the front."""
        main = self.judge.exam.main
        return (main, *(name for name in self.baseline.judgement.metrics if name != main))

    def text(self) -> str:
        """For a terminal: plain lines, whatever its width."""
        tables = [self._results(), *self._by_examples()]
        return f"{self._heading}\n\n" + "\n".join(table.text() for table in tables)

    def html(self) -> str:
        """A page that needs nothing else."""
        differing = difference_table([row.facts.name for row in self.rows], self.differences)
        tables = [self._results(), *self._by_examples(), *([differing] if differing.rows else [])]
        return html_page(self._heading, tables=tables, pictures=[self._plot(name) for name in self.metrics])

    def figure(self) -> str:
        """The first metric by the number of examples, as SVG."""
        return self._plot(self.metrics[0])

    def json(self) -> str:
        """All numbers."""
        content = {
            "heedful": __version__,
            "task": self.rows[0].recipe.task,
            "text": self.text_name,
            "examples": self.judge.exam.size,
            "samples": self.judge.samples,
            "seed": self.judge.seed,
            "metrics": list(self.metrics),
            "runs": [_record(row, kind) for row, kind in zip(self.rows, self._kinds, strict=True)],
            "baseline": {"answer": self.baseline.constant, **_scores(self.baseline.judgement)},
            "families": [
                {
                    "name": family_name(family),
                    "runs": [row.facts.name for row in family],
                    "against_first": {str(n): asdict(each) for n, each in self._against_first(family).items()},
                }
                for family in self.families
            ],
            "differences": self.differences,
            "notes": self._notes(),
        }
        return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"

    @property
    def _heading(self) -> str:
        what = f"{len(self.rows)} runs" if len(self.rows) > 1 else "1 run"
        return f"{what} of {self.rows[0].recipe.task}, {self.judge.exam.size:,} answers about {self.text_name}"

    @property
    def _kinds(self) -> list[str]:
        return kinds([row.recipe for row in self.rows])

    def _results(self) -> Table:
        columns = ["run", "model", "start", "examples", "learned", "minutes"]
        for name in self.metrics:
            columns += [name, "95 % interval", "p"]
        rows = [
            [
                row.facts.label,
                kind,
                start(row.recipe),
                f"{row.examples:,}",
                f"{row.facts.learned:,}",
                number(row.facts.minutes, ".1f"),
                *self._cells(row.judgement),
            ]
            for row, kind in zip(self.rows, self._kinds, strict=True)
        ]
        without = [self.baseline.name, NONE, NONE, f"{self.judge.exam.total:,}", "0", NONE]
        return Table("", columns, [*rows, [*without, *self._cells(self.baseline.judgement)]], self._notes())

    def _cells(self, judgement: Judgement) -> list[str]:
        cells: list[str] = []
        for name in self.metrics:
            found = judgement.metrics[name]
            cells += [f"{found.value:.4f}", f"{found.low:.4f} to {found.high:.4f}"]
            cells.append(f"{judgement.against[name].p_value:.3f}" if judgement.against else NONE)
        return cells

    def _notes(self) -> list[str]:
        first = self.rows[0].facts.name
        notes = list(unfinished([row.facts for row in self.rows]))
        notes.append("learned: parameters that training changes")
        notes.append(
            f"p: how often chance alone makes a difference from {first} at least this large (paired bootstrap, "
            f"{self.judge.samples:,} samples)"
        )
        free = ("model.", "tokenizer.", "data.examples")
        if besides := [key for key in self.differences if not key.startswith(free)]:
            notes.append(f"besides model and examples, the recipes differ in {', '.join(besides)}")
        return notes

    def _by_examples(self) -> list[Table]:
        """A row for each family, where one of them has several sizes."""
        if all(len(family) == 1 for family in self.families):
            return []
        sizes = sorted({row.examples for row in self.rows})
        name, first = self.metrics[0], family_name(self.families[0])
        rows = []
        for family in self.families:
            values = {row.examples: f"{row.judgement.metrics[name].value:.4f}" for row in family}
            for size, found in self._against_first(family).items():
                values[size] += f" ({found.p_value:.3f})"
            rows.append([family_name(family), *(values.get(size, NONE) for size in sizes)])
        notes = [] if len(rows) == 1 else [f"in brackets p of the difference from {first} with as many examples"]
        return [Table(f"{name} by examples learned from", ["runs", *(f"{size:,}" for size in sizes)], rows, notes)]

    def _against_first(self, family: Sequence[Row]) -> dict[int, Comparison]:
        """The first metric beside that of the first family with as many examples."""
        others = {row.examples: row for row in self.families[0]}
        if family[0] is self.families[0][0]:
            return {}
        return {
            row.examples: next(
                found
                for found in self.judge.compare(others[row.examples].answers, row.answers)
                if found.name == self.metrics[0]
            )
            for row in family
            if row.examples in others
        }

    def _plot(self, name: str) -> str:
        lines = []
        for family in self.families:
            found = [(row.examples, row.judgement.metrics[name]) for row in family]
            points = tuple((examples, each.value) for examples, each in found)
            lines.append(Line(family_name(family), points, band=tuple((each.low, each.high) for _, each in found)))
        return line_plot(
            lines,
            title=f"{name} by examples learned from",
            x_name="examples learned from",
            y_name=f"{name}, with its 95 % interval",
            x_ticks=[(size, f"{size:,}") for size in sorted({row.examples for row in self.rows})],
            x_scale=LOGARITHMIC,
            levels=[Level(self.baseline.name, self.baseline.judgement.metrics[name].value)],
        )


def family_name(family: Sequence[Row]) -> str:
    """What the names of runs have in common, without the numbers of examples behind it; else that of the first run."""
    stems = {row.facts.name.removesuffix(f"-{row.examples}") for row in family}
    return stems.pop() if len(stems) == 1 else family[0].facts.name


def _scores(judgement: Judgement) -> dict[str, Any]:
    return {
        "metrics": {name: asdict(each) for name, each in judgement.metrics.items()},
        "against_first": {name: asdict(each) for name, each in judgement.against.items()},
    }


def _record(row: Row, kind: str) -> dict[str, Any]:
    facts, init = row.facts, row.recipe.init
    return {
        "run": facts.name,
        "model": kind,
        "init": None if init is None else str(init),
        "freeze": row.recipe.training.freeze,
        "finished": facts.finished,
        "step": facts.step,
        "examples": row.examples,
        "parameters": facts.parameters,
        "learned": facts.learned,
        "minutes": facts.minutes,
        **_scores(row.judgement),
        "curve": [asdict(point) for point in facts.curve],
    }
