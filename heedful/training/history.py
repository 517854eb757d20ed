"""Training history for callers from Python: log lines during training, then a table of all evaluations."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import final

from heedful.training.callbacks import Callback, StepMetrics, ValidationResult


@dataclass(frozen=True)
class HistoryPoint:
    """An evaluation, and the training loss since the one before.

    Attributes:
        step: number of updates so far.
        epoch: the current one, from 0.
        seconds: training time so far.
        training_nll: mean nll of a label since the point before, in nats; None before the first update.
        metrics: on the validation set.
        improved: whether the monitored metric is the best so far.
    """

    step: int
    epoch: int
    seconds: float
    training_nll: float | None
    metrics: Mapping[str, float]
    improved: bool


@final
@dataclass(eq=False, repr=False)
class TrainingHistory(Callback):
    """Callback that keeps a point for each evaluation and logs it as a line.

    In a notebook: `heedful.train(recipe, listeners=[TrainingHistory(print)])`.

    Args:
        log: called with each line, such as `print`; None logs nothing.
        log_interval: seconds between log lines from one evaluation to the next.

    Attributes:
        points: in order.
    """

    log: Callable[[str], None] | None = None
    log_interval: float = 20.0
    points: list[HistoryPoint] = field(default_factory=list, init=False)
    _total: float = field(default=0.0, init=False)
    _labels: int = field(default=0, init=False)
    _last_log_time: float | None = field(default=None, init=False)

    def on_step_end(self, update: StepMetrics) -> None:
        """Add up the training loss, and log it at intervals."""
        self._total += update.nll * update.labels
        self._labels += update.labels
        now = time.monotonic()
        if self._last_log_time is None:
            self._last_log_time = now
        elif self.log is not None and now - self._last_log_time >= self.log_interval:
            self._last_log_time = now
            self.log(f"step {update.step}  training {self._total / self._labels:.3f}")

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Add a point, and log it; a star marks the best so far."""
        progress = evaluation.progress
        training = self._total / self._labels if self._labels else None
        self._total, self._labels = 0.0, 0
        metrics = dict(evaluation.metrics)
        self.points.append(
            HistoryPoint(progress.step, progress.epoch, progress.seconds, training, metrics, evaluation.improved)
        )
        if self.log is not None:
            self._last_log_time = time.monotonic()
            numbers = [f"step {progress.step}", *([] if training is None else [f"training {training:.3f}"])]
            metric_text = "  ".join(f"{name} {value:.3f}" for name, value in metrics.items())
            self.log("  ".join([*numbers, f"validation {metric_text}"]) + (" *" if evaluation.improved else ""))

    def __repr__(self) -> str:
        header, *rows = self._build_table()
        if not rows:
            return "History of nothing yet"
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = (
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in self._build_table()
        )
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        header, *rows = self._build_table()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _build_table(self) -> list[list[str]]:
        """Return the table as rows of cells, header first; a star after a step marks the best so far."""
        names = list(self.points[0].metrics) if self.points else []
        table = [["step", "seconds", "training", *(f"validation {name}" for name in names)]]
        for point in self.points:
            training = "" if point.training_nll is None else f"{point.training_nll:.3f}"
            metrics = (f"{point.metrics[name]:.3f}" for name in names)
            step = f"{point.step}{' *' if point.improved else '  '}"
            table.append([step, f"{point.seconds:.1f}", training, *metrics])
        return table
