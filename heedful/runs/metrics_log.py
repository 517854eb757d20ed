"""Logs of training, and the learning curves that are read from them and plotted as text, as SVG, and as an HTML
page.

metrics.jsonl has a line for each evaluation, one for every fifty updates, and one for the final model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from heedful.atomic_io import atomic_replace, sync_file
from heedful.errors import RunError, TrainingError
from heedful.files import LARGEST_LOG, parse_json, read_text
from heedful.inspection.page import PageTable, escape_page_text, render_html_page
from heedful.inspection.plots import PlotLine, draw_line_plot, draw_text_plot
from heedful.training.callbacks import Callback, LossSum, StepMetrics, TrainState, ValidationResult
from heedful.training.eta import format_duration

_UPDATES_PER_LINE = 50
_LINE_KEY = "training_line"


@dataclass
class _UpdateSums:
    """Sums over the updates since the last line."""

    labels: int = 0
    loss: float = 0.0
    nll: float = 0.0
    seconds: float = 0.0
    gradient_norm: float = 0.0
    parts: dict[str, LossSum] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> _UpdateSums:
        """Restore the sums from what `asdict` stored; empty sums if nothing was stored."""
        parts = {name: LossSum(**part) for name, part in stored.get("parts", {}).items()}
        return cls(**{**stored, "parts": parts})

    def add(self, update: StepMetrics) -> None:
        """Add an update to the sums."""
        self.labels += update.labels
        self.loss += update.loss * update.labels
        self.nll += update.nll * update.labels
        self.seconds += update.seconds
        self.gradient_norm = max(self.gradient_norm, update.gradient_norm)
        for name, part in update.extra_losses.items():
            previous = self.parts.get(name, LossSum(0.0, 0.0))
            self.parts[name] = LossSum(previous.total + part.total, previous.count + part.count)


class MetricsLog(Callback):
    """Callback that appends metrics to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sums = _UpdateSums()
        self._run_fields: Mapping[str, str] = {}

    def get_state(self) -> Mapping[str, Any]:
        """Return the sums since the last line, which a resumed run continues."""
        return {_LINE_KEY: asdict(self._sums)}

    def rewind(self, progress: TrainState, stored: Mapping[str, Any], *, run_id: str | None = None) -> None:
        """Remove the lines after the checkpoint whose progress is given, which training will write again, and restore
        the sums since the last line from `stored`, the state of callbacks in the checkpoint. The lines of evaluations
        name `run_id`, if there is one.
        """
        self._run_fields = {} if run_id is None else {"run_id": run_id}
        self._sums = _UpdateSums.from_dict(stored.get(_LINE_KEY, {}))
        if not self.path.exists():
            return
        try:
            lines = read_text(self.path, max_bytes=LARGEST_LOG, errors="replace").splitlines()
        except OSError as error:
            raise RunError(
                f"{self.path}: cannot be read ({error.strerror}); move it to another place, and train again"
            ) from None
        with atomic_replace(self.path) as partial:
            kept = [line for line in lines if _is_kept(line, progress)]
            partial.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def on_step_end(self, update: StepMetrics) -> None:
        """Add an update to the sums; write a line for every fifty: means per label, the last learning rate, labels per
        second.

        Further parts of the loss are means over what they count; `loss` and `nll` of several tasks are means over the
        labels of all, and each task has its own next to them.
        """
        self._sums.add(update)
        if update.step % _UPDATES_PER_LINE:
            return
        sums, self._sums = self._sums, _UpdateSums()
        record = {
            "kind": "training",
            "step": update.step,
            "epoch": update.epoch,
            "loss": sums.loss / sums.labels,
            "nll": sums.nll / sums.labels,
            "rate": update.rate,
            "gradient_norm": sums.gradient_norm,
            "labels_per_second": sums.labels / sums.seconds,
        }
        self._append(record | {name: part.mean for name, part in sorted(sums.parts.items()) if name not in record})

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Write one line with the metrics and the progress of an evaluation."""
        progress = evaluation.progress
        self._append(
            {
                "kind": "validation",
                "step": progress.step,
                "epoch": progress.epoch,
                "seconds": round(progress.seconds, 1),
                "labels": progress.labels,
                "improved": evaluation.improved,
                **evaluation.metrics,
                **self._run_fields,
            }
        )

    def write_final(self, progress: TrainState, metrics: Mapping[str, float], *, steps: Sequence[int]) -> None:
        """Write one line with the metrics of the final model, which was made of the checkpoints of `steps`, and with
        the best single checkpoint, which `progress` holds.
        """
        self._append(
            {
                "kind": "final",
                "step": progress.step,
                "checkpoints": list(steps),
                **metrics,
                "best": progress.best,
                "best_step": progress.best_step,
                **self._run_fields,
            }
        )
        sync_file(self.path)

    def _append(self, record: dict[str, Any]) -> None:
        """Append a record as a JSON line; infinite numbers become null."""
        finite = {key: None if value in (math.inf, -math.inf) else value for key, value in record.items()}
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(finite, allow_nan=False) + "\n")
        except OSError as error:
            raise TrainingError(
                f"{self.path}: cannot be written ({error.strerror}); free some space and start the same command again"
            ) from error


def _is_kept(line: str, progress: TrainState) -> bool:
    """Return whether a line of the file belongs to training up to the checkpoint whose progress is given."""
    try:
        record = parse_json(line)
        kind, step = record["kind"], int(record["step"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return False  # half a line, left by a kill
    if kind == "validation" and step == progress.step:
        return progress.evaluated == step
    return kind != "final" and step <= progress.step


_HIGH_PERPLEXITY: Final = 100.0
"""Perplexity from which on a warning is given."""


@dataclass(frozen=True)
class TrainingPoint:
    """Mean negative log-likelihood of a label, in nats, over the updates up to `step`."""

    step: int
    loss: float


@dataclass(frozen=True)
class ValidationPoint:
    """One evaluation: the update after which it was made, the seconds of training until then, and the loss in nats."""

    step: int
    seconds: float
    loss: float


@dataclass(frozen=True)
class LearningCurve:
    """Training and validation losses of a run, in order.

    Attributes:
        training: one point for every fifty updates.
        validation: one point for each evaluation.
        finished: whether training has ended.
    """

    training: tuple[TrainingPoint, ...] = ()
    validation: tuple[ValidationPoint, ...] = ()
    finished: bool = False

    @property
    def best(self) -> ValidationPoint | None:
        """The evaluation with the lowest loss; the first of several."""
        return min(self.validation, key=lambda point: point.loss, default=None)


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield each readable line of a metrics file as a dict; skip a half-written line, and yield nothing if there is no
    file.
    """
    try:
        lines = read_text(path, max_bytes=LARGEST_LOG, errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            record = parse_json(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def has_numbers(record: Mapping[str, Any], kind: str, *names: str) -> bool:
    """Whether a record is of this kind and has finite numbers under these names."""
    return record.get("kind") == kind and all(_is_number(record.get(name)) for name in names)


def read_curve(path: Path) -> LearningCurve:
    """Read the learning curve from a metrics file; empty if there is no file."""
    training: list[TrainingPoint] = []
    validation: list[ValidationPoint] = []
    finished = False
    for record in read_records(path):
        if has_numbers(record, "training", "step"):
            loss = next((record[name] for name in ("nll", "loss") if _is_number(record.get(name))), None)
            if loss is not None:
                training.append(TrainingPoint(record["step"], loss))
        elif has_numbers(record, "validation", "step", "loss"):
            seconds = record["seconds"] if _is_number(record.get("seconds")) else 0.0
            validation.append(ValidationPoint(record["step"], seconds, record["loss"]))
        finished = finished or record.get("kind") == "final"
    return LearningCurve(tuple(training), tuple(validation), finished)


def describe_high_perplexity(path: Path) -> str:
    """Return a warning if the last evaluation in a metrics file has a high perplexity; otherwise an empty string.

    A perplexity of 100 means that the model is as unsure of each token as if it chose among 100 tokens at random.
    Models that have learned a language or a translation have a far lower perplexity; models that have read their text
    only once often have a higher one.

    Returns:
        A sentence with the perplexity, the number of passes over the text, and a remedy; empty if the perplexity is not
        high or the task has none.
    """
    perplexity, epoch = 0.0, None
    for record in read_records(path):
        if has_numbers(record, "validation", "step", "perplexity"):
            perplexity, epoch = record["perplexity"], record.get("epoch")
        elif has_numbers(record, "final", "step", "perplexity"):
            perplexity = record["perplexity"]
    if perplexity < _HIGH_PERPLEXITY:
        return ""
    passes = ""
    if isinstance(epoch, int):
        passes = ", and the text was read once or less" if epoch <= 1 else f" after {epoch:,} passes over the text"
    return (
        f"the perplexity of validation is high, {perplexity:,.0f}{passes}: the model has learned little so far; "
        "train longer (training.steps, epochs or minutes), or give more text"
    )


def _is_number(value: Any) -> bool:
    """Whether a JSON value is a finite number; Python's JSON reader also accepts NaN, which cannot be plotted."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")


_TITLE = "Training and validation loss"
_X, _Y = "updates", "nats per label"


@dataclass(frozen=True, repr=False)
class CurvePlots:
    """Plots of the learning curves of runs, by run name."""

    curves: Mapping[str, LearningCurve]

    def __repr__(self) -> str:
        return self.to_text(width=72, height=20)

    def _repr_html_(self) -> str:
        return "".join(
            f"<p>{escape_page_text(_summarize_curve(name, curve))}</p>" for name, curve in self.curves.items()
        ) + ("" if self.is_empty else self.to_svg())

    @property
    def plot_lines(self) -> list[PlotLine]:
        """Two lines for each run, training and validation; labelled with the run's name if there are several."""
        lines = []
        for name, curve in self.curves.items():
            prefix = f"{name}, " if len(self.curves) > 1 else ""
            lines.append(PlotLine(f"{prefix}training", tuple((point.step, point.loss) for point in curve.training)))
            lines.append(PlotLine(f"{prefix}validation", tuple((point.step, point.loss) for point in curve.validation)))
        return lines

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been measured yet."""
        return not any(line.points for line in self.plot_lines)

    def to_text(self, *, width: int, height: int) -> str:
        """Draw the curves as text of `width` columns and `height` rows, with a summary line for each run."""
        summary = "".join(f"{_summarize_curve(name, curve)}\n" for name, curve in self.curves.items())
        if self.is_empty:
            return summary
        rows = height - len(self.curves) - 1
        return draw_text_plot(self.plot_lines, x_name=_X, y_name=_Y, width=width, height=rows) + "\n" + summary

    def to_svg(self) -> str:
        """Draw training and validation loss over updates as SVG."""
        return draw_line_plot(self.plot_lines, title=_TITLE, x_name=_X, y_name=_Y)

    def to_html(self) -> str:
        """Build an HTML page: losses over updates, validation loss over minutes, and a table."""
        rows = [_build_row(name, curve) for name, curve in self.curves.items()]
        columns = ("run", "updates", "time", "lowest validation", "at update", "validation", "training", "finished")
        notes = ["Losses are negative log-likelihoods in nats per label; training is measured with dropout."]
        timed = [
            PlotLine(name, tuple((point.seconds / 60, point.loss) for point in curve.validation))
            for name, curve in self.curves.items()
        ]
        pictures = [self.to_svg()]
        if any(line.points for line in timed):
            pictures.append(
                draw_line_plot(timed, title="Validation loss by time", x_name="minutes of training", y_name=_Y)
            )
        return render_html_page(_TITLE, tables=[PageTable("", columns, rows, notes)], pictures=pictures)


def _build_row(name: str, curve: LearningCurve) -> list[str]:
    """Build the table row of a run called `name` with the given learning curve: its progress and its losses."""
    steps = [*(point.step for point in curve.training), *(point.step for point in curve.validation)]
    best = curve.best
    return [
        name,
        f"{max(steps, default=0):,}",
        format_duration(curve.validation[-1].seconds) if curve.validation else "-",
        *(("-", "-") if best is None else (f"{best.loss:.4f}", f"{best.step:,}")),
        f"{curve.validation[-1].loss:.4f}" if curve.validation else "-",
        f"{curve.training[-1].loss:.4f}" if curve.training else "-",
        "yes" if curve.finished else "not yet",
    ]


def _summarize_curve(name: str, curve: LearningCurve) -> str:
    """Describe the learning curve of a run called `name` in one line."""
    parts = []
    if curve.best is not None:
        last = curve.validation[-1]
        parts.append(f"lowest validation loss {curve.best.loss:.4f} at update {curve.best.step:,}")
        if last.step != curve.best.step:
            parts.append(f"{last.loss:.4f} at update {last.step:,}")
    if curve.training:
        parts.append(f"training {curve.training[-1].loss:.4f} at update {curve.training[-1].step:,}")
    parts.append("finished" if curve.finished else "not finished" if parts else "no measurements yet")
    return f"{name}: {', '.join(parts)}"
