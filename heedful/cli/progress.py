"""What the terminal shows while training: a bar where there is a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from heedful.recipes.training import TrainingConfig
from heedful.training.listeners import Evaluation, Listener, Update

_LINE_EVERY = 20.0
"""Seconds between lines where there is no terminal."""


class TrainingProgress(Listener):
    """Rate, loss, and time left; one line for each evaluation.

    Args:
        config: tells when training ends.
        console: standard error.
    """

    def __init__(self, config: TrainingConfig, console: Console) -> None:
        self.config = config
        self.console = console
        self._bar: Progress | None = None
        self._task = None
        self._last_line = time.monotonic()
        self._began = time.monotonic()
        self._labels = self._seconds = 0.0
        if console.is_terminal:
            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[numbers]}"),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("training", total=config.steps, numbers="")

    def __enter__(self) -> TrainingProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def updated(self, update: Update) -> None:
        """Moves the bar, or writes a line now and then."""
        self._labels = 0.98 * self._labels + update.labels
        self._seconds = 0.98 * self._seconds + update.seconds
        numbers = f"loss {update.loss:.3f}  {self._labels / self._seconds:,.0f} tokens/s"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=update.step, numbers=numbers)
        elif time.monotonic() - self._last_line >= _LINE_EVERY:
            self._last_line = time.monotonic()
            total = f"/{self.config.steps}" if self.config.steps else ""
            print(f"step {update.step}{total}  {numbers}{self._left(update.step)}", file=sys.stderr, flush=True)

    def evaluated(self, evaluation: Evaluation) -> None:
        """One line of metrics; a star marks the best so far."""
        metrics = "  ".join(f"{name} {value:.3f}" for name, value in evaluation.metrics.items())
        minutes = evaluation.progress.seconds / 60
        star = " *" if evaluation.improved else ""
        text = f"step {evaluation.progress.step}  {minutes:.1f} min  validation {metrics}{star}"
        if self._bar is not None:
            self._bar.console.print(text, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def _left(self, step: int) -> str:
        if not self.config.steps:
            return ""
        self._first = getattr(self, "_first", step)
        done = step - self._first
        if not done:
            return ""
        left = (time.monotonic() - self._began) / done * (self.config.steps - step)
        return f"  {left / 60:.1f} min left"
