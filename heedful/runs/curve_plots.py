"""Plots of learning curves: as text for a terminal, as SVG, and as an HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heedful.inspection.page import PageTable, escape_page_text, render_html_page
from heedful.inspection.plots import PlotLine, draw_line_plot
from heedful.inspection.text_plot import draw_text_plot
from heedful.runs.learning_curve import LearningCurve
from heedful.training.eta import format_duration

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
    """Build the table row of a run: its progress and its losses."""
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
    """Describe the learning curve of a run in one line."""
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
