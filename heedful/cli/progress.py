"""How far a command is, on standard error: a bar in a terminal, plain lines now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from heedful.cli.output import say
from heedful.recipes.training import TrainingConfig
from heedful.training.listeners import Evaluation, Listener, Update

_LINE_EVERY = 20.0
"""Seconds between lines where there is no terminal."""


class _Bar:
    """Shown inside of a `with` block, and disabled where there is no terminal."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _wants_line(self) -> bool:
        """Whether there is no bar, and it is time for another line, which is told now."""
        due = self._bar.disable and time.monotonic() - self._last_line >= _LINE_EVERY
        if due:
            self._last_line = time.monotonic()
        return due


class Counting(_Bar):
    """Called with what is done and with what there is to do; `what` is counted, in words."""

    def __init__(self, what: str) -> None:
        super().__init__(Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()))
        self._what = what
        self._task = self._bar.add_task(what, total=None)

    def __call__(self, done: int, total: int) -> None:
        """Moves the bar, or writes a line."""
        self._bar.update(self._task, completed=done, total=total)
        if self._wants_line():
            say(f"{self._what}: {done:,} of {total:,}")


class TrainingProgress(_Bar, Listener):
    """Rate, loss, and time left; one line for each evaluation. `config` tells when training ends."""

    def __init__(self, config: TrainingConfig, console: Console) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}"),
        )
        super().__init__(Progress(*columns, console=console, transient=True, disable=not console.is_terminal))
        self.config = config
        self._task = self._bar.add_task("training", total=config.steps, numbers="")
        self._began = time.monotonic()
        self._labels = self._seconds = 0.0

    def updated(self, update: Update) -> None:
        """Moves the bar, or writes a line now and then."""
        self._labels = 0.98 * self._labels + update.labels
        self._seconds = 0.98 * self._seconds + update.seconds
        numbers = f"loss {update.loss:.3f}  {self._labels / self._seconds:,.0f} tokens/s"
        self._bar.update(self._task, completed=update.step, numbers=numbers)
        if self._wants_line():
            total = f"/{self.config.steps}" if self.config.steps else ""
            say(f"step {update.step}{total}  {numbers}{self._left(update.step)}")

    def evaluated(self, evaluation: Evaluation) -> None:
        """One line of metrics; a star marks the best so far."""
        metrics = "  ".join(f"{name} {value:.3f}" for name, value in evaluation.metrics.items())
        minutes = evaluation.progress.seconds / 60
        star = " *" if evaluation.improved else ""
        text = f"step {evaluation.progress.step}  {minutes:.1f} min  validation {metrics}{star}"
        if self._bar.disable:
            say(text)
        else:
            self._bar.console.print(text, highlight=False)

    def _left(self, step: int) -> str:
        self._first = getattr(self, "_first", step)
        done = step - self._first
        if not self.config.steps or not done:
            return ""
        left = (time.monotonic() - self._began) / done * (self.config.steps - step)
        return f"  {left / 60:.1f} min left"
