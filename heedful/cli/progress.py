"""Progress of commands on standard error: a bar in a terminal, otherwise a line from time to time."""

from __future__ import annotations

import sys
import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from heedful.cli.output import log
from heedful.tasks.objective import UnitNames
from heedful.training.callbacks import Callback, EpochPlan, StepMetrics, ValidationResult
from heedful.training.eta import TrainingForecast

_SECONDS_PER_LINE = 20.0
"""Seconds between lines if there is no terminal."""


class _ProgressBar:
    """Progress bar that is shown inside a `with` block; disabled if there is no terminal."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._bar.disable:  # older versions of rich write an empty line
            self._bar.stop()

    def _is_line_due(self) -> bool:
        """Whether the bar is disabled and the next line is due; resets the timer if it is."""
        due = self._bar.disable and time.monotonic() - self._last_line >= _SECONDS_PER_LINE
        if due:
            self._last_line = time.monotonic()
        return due


class CountingProgress(_ProgressBar):
    """Progress callback: called with the number of items done and the total (None if unknown); `label` names the
    items. Lines also have the number of items a second since the start.
    """

    def __init__(self, label: str) -> None:
        super().__init__(Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()))
        self._label, self._start = label, time.monotonic()
        self._task = self._bar.add_task(label, total=None)

    def __call__(self, done: int, total: int | None) -> None:
        """Move the bar or write a line."""
        self._bar.update(self._task, completed=done, total=total)
        if self._is_line_due():
            speed = done / max(1e-9, time.monotonic() - self._start)
            speed_text = f"{speed:,.0f}" if speed >= 10 else f"{speed:.1f}"
            log(f"{self._label}: {done:,}{'' if total is None else f' of {total:,}'}, {speed_text} a second")


class TrainingProgress(_ProgressBar, Callback):
    """Training callback that shows speed, loss and remaining time, and one line for each evaluation.

    Args:
        forecast: forecast before training starts.
        console: console for the bar, if it is a terminal.
        counted: names of labels and examples.
    """

    def __init__(self, forecast: TrainingForecast, console: Console, counted: UnitNames) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
        )
        super().__init__(Progress(*columns, console=console, transient=True, disable=not console.is_terminal))
        self._forecast = forecast
        self._counted = counted
        self._task = self._bar.add_task("training", total=forecast.limits.steps, numbers="")

    def on_epoch_begin(self, plan: EpochPlan) -> None:
        """Set the total number of updates."""
        self._forecast = self._forecast.with_plan(plan)
        self._bar.update(self._task, completed=plan.progress.step, total=self._forecast.last_step)

    def on_step_end(self, update: StepMetrics) -> None:
        """Move the bar, or write a line from time to time, with the loss of the update, the speed and the remaining
        time.
        """
        self._forecast = forecast = self._forecast.with_update(update)
        speed = self._counted.describe_speed(labels=forecast.labels_per_second, examples=forecast.examples_per_second)
        numbers = "  ".join(filter(None, (f"loss {update.loss:.3f}", speed, forecast.format_time_left())))
        self._bar.update(self._task, completed=update.step, numbers=numbers)
        if self._is_line_due():
            total = "" if forecast.last_step is None else f"/{forecast.last_step}"
            log(f"step {update.step}{total}  {numbers}")

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Write one line of metrics; a star marks the best evaluation so far."""
        self._forecast = self._forecast.with_evaluation(evaluation)
        metrics = "  ".join(f"{name} {value:.3f}" for name, value in evaluation.metrics.items())
        minutes = evaluation.progress.seconds / 60
        star = " *" if evaluation.improved else ""
        text = f"step {evaluation.progress.step}  {minutes:.1f} min  validation {metrics}{star}"
        if self._bar.disable:
            log(text)
        else:
            self._bar.console.print(text, highlight=False)
