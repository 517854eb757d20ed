"""A campaign tries one kind of harm many times, counts what happened, and keeps each failure for a replay."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

_SAVE_SECONDS = 10.0


@dataclass(frozen=True)
class Failure:
    """An attempt that ended in a way that must not happen.

    Attributes:
        case: what was tried, such as the command and the number of the operation.
        problem: what happened instead.
        replay: how to try it again: a stored file, or the seed and number of the attempt.
    """

    case: str
    problem: str
    replay: str = ""


@dataclass
class Figures:
    """What a campaign counted.

    Attributes:
        kind: name of the campaign.
        seed: seed of all choices.
        seconds: duration so far.
        complete: whether the campaign reached its end.
        attempts: number of attempts.
        outcomes: number of attempts by outcome.
        cases: number of attempts by case, such as a command.
        measures: further numbers, such as bytes of memory.
        failures: attempts that failed.
        skipped: what could not be tried, with the reason.
        notes: what is no failure, but of interest.
    """

    kind: str
    seed: int
    seconds: float = 0.0
    complete: bool = False
    attempts: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    measures: dict[str, float] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def count(self, case: str, outcome: str, *, number: int = 1) -> None:
        """Count attempts of a case that had this outcome."""
        self.attempts += number
        self.outcomes[outcome] += number
        self.cases[case] += number

    def fail(self, failure: Failure) -> None:
        """Keep a failure; attempts are counted by `count`."""
        self.failures.append(failure)
        print(f"{self.kind}: FAILED {failure.case}: {failure.problem[-1500:]} [{failure.replay}]", flush=True)

    def save(self, path: Path) -> None:
        """Write the figures as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}")
        content = {**vars(self), "failures": [asdict(failure) for failure in self.failures]}
        unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        unfinished.replace(path)


class Campaign(ABC):
    """One kind of harm.

    Args:
        folder: folder for work and figures; the figures are `KIND-SEED.json` in it.
        limit: largest number of attempts; None for as many as the minutes allow.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """What is tried, for the table."""

    def __init__(self, folder: Path, *, limit: int | None = None) -> None:
        self.folder = folder
        self.limit = limit
        self._begun = self._saved = time.monotonic()
        self._end = self._begun

    def run(self, minutes: float, seed: int) -> Figures:
        """Run the campaign for about so many minutes, and return its figures."""
        print(f"{self.name}: seed {seed}, {minutes:g} minutes at most", flush=True)
        self._begun = time.monotonic()
        self._end = self._begun + minutes * 60
        figures = Figures(self.name, seed)
        self.work.mkdir(parents=True, exist_ok=True)
        self.attempt_all(figures)
        figures.complete = True
        self._save(figures)
        return figures

    @abstractmethod
    def attempt_all(self, figures: Figures) -> None:
        """Make attempts until `is_over`, with choices that depend on the figures' seed only."""

    @property
    def work(self) -> Path:
        """Folder for files of the campaign."""
        return (self.folder / "work" / self.name).resolve()

    @property
    def seconds_left(self) -> float:
        """Seconds until the campaign should end."""
        return max(0.0, self._end - time.monotonic())

    def is_over(self, figures: Figures) -> bool:
        """Return whether the time is over or the number of attempts is reached; save the figures now and then."""
        if time.monotonic() - self._saved > _SAVE_SECONDS:
            self._save(figures)
        return self.seconds_left == 0 or (self.limit is not None and figures.attempts >= self.limit)

    def _save(self, figures: Figures) -> None:
        self._saved = time.monotonic()
        figures.seconds = self._saved - self._begun
        figures.save(self.folder / f"{self.name}-{figures.seed}.json")


def read_figures(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the figures of all campaigns of a folder."""
    for path in sorted(folder.glob("*-*.json")):
        yield json.loads(path.read_text(encoding="utf-8"))


def format_table(every: Sequence[dict[str, Any]], summaries: dict[str, str]) -> str:
    """Return a Markdown table with a row for each kind, added up over seeds."""
    rows = ["| kind | what is tried | attempts | outcomes | failures | minutes |", "|---|---|---|---|---|---|"]
    for kind, summary in summaries.items():
        mine = [each for each in every if each["kind"] == kind]
        if not mine:
            continue
        outcomes: Counter[str] = Counter()
        for each in mine:
            outcomes.update(each["outcomes"])
        told = ", ".join(f"{name} {number:,}" for name, number in outcomes.most_common())
        measured = [f"{name} {value:,.6g}" for each in mine for name, value in each["measures"].items()]
        rows.append(
            f"| {kind} | {summary} | {sum(each['attempts'] for each in mine):,} | {'; '.join([told, *measured])} | "
            f"{sum(len(each['failures']) for each in mine):,} | {sum(each['seconds'] for each in mine) / 60:.0f} |"
        )
    return "\n".join(rows)
