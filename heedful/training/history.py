"""How training went, for whoever calls it from Python: lines while it runs, a table and its numbers afterwards."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import final

from heedful.training.listeners import Evaluation, Listener, Update


@dataclass(frozen=True)
class Point:
    """An evaluation, and what was learned since the one before.

    Attributes:
        step: updates until then.
        epoch: the running one, from 0.
        seconds: spent until then.
        training: mean nll of a label since the point before, in nats; None before the first update.
        metrics: on the validation set.
        improved: whether the monitored metric was better than ever.
    """

    step: int
    epoch: int
    seconds: float
    training: float | None
    metrics: Mapping[str, float]
    improved: bool


@final
@dataclass(eq=False, repr=False)
class History(Listener):
    """Keeps a point for each evaluation, and tells it in a line.

    In a notebook a training is followed by `heedful.train(recipe, listeners=[History(print)])`.

    Args:
        say: told of each point in a line; `print`, say. None is silence.
        every: seconds after which it is told between evaluations how far training is.

    Attributes:
        points: in order.
    """

    say: Callable[[str], None] | None = None
    every: float = 20.0
    points: list[Point] = field(default_factory=list, init=False)
    _total: float = field(default=0.0, init=False)
    _labels: int = field(default=0, init=False)
    _told: float | None = field(default=None, init=False)

    def updated(self, update: Update) -> None:
        """Adds up what is learned."""
        self._total += update.nll * update.labels
        self._labels += update.labels
        now = time.monotonic()
        if self._told is None:
            self._told = now
        elif self.say is not None and now - self._told >= self.every:
            self._told = now
            self.say(f"step {update.step}  training {self._total / self._labels:.3f}")

    def evaluated(self, evaluation: Evaluation) -> None:
        """One more point; in its line a star marks the best so far."""
        progress = evaluation.progress
        training = self._total / self._labels if self._labels else None
        self._total, self._labels = 0.0, 0
        metrics = dict(evaluation.metrics)
        self.points.append(
            Point(progress.step, progress.epoch, progress.seconds, training, metrics, evaluation.improved)
        )
        if self.say is not None:
            self._told = time.monotonic()
            numbers = [f"step {progress.step}", *([] if training is None else [f"training {training:.3f}"])]
            told = "  ".join(f"{name} {value:.3f}" for name, value in metrics.items())
            self.say("  ".join([*numbers, f"validation {told}"]) + (" *" if evaluation.improved else ""))

    def __repr__(self) -> str:
        header, *rows = self._table()
        if not rows:
            return "History of nothing yet"
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in self._table())
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        header, *rows = self._table()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _table(self) -> list[list[str]]:
        """Cells, the names first; a star behind a step marks the best so far."""
        names = list(self.points[0].metrics) if self.points else []
        table = [["step", "seconds", "training", *(f"validation {name}" for name in names)]]
        for point in self.points:
            training = "" if point.training is None else f"{point.training:.3f}"
            metrics = (f"{point.metrics[name]:.3f}" for name in names)
            step = f"{point.step}{' *' if point.improved else '  '}"
            table.append([step, f"{point.seconds:.1f}", training, *metrics])
        return table
