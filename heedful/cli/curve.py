"""`heedful curve`: training and validation loss of runs, also while they train."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from heedful.cli.arguments import OptionalOutput, PositionalPaths
from heedful.cli.output import log, open_output, require_writable, wrap_write_errors
from heedful.errors import RecipeError, RunError
from heedful.files import check_path_name

if TYPE_CHECKING:
    from heedful.runs.learning_curve import CurvePlots

_POLL_SECONDS: Final = 2.0
"""Seconds between two reads of the files."""
_MAX_COLUMNS, _MAX_ROWS = 110, 30


@dataclass(frozen=True)
class CurveArguments:
    """Plot the training and validation loss of runs over updates, from their metrics.jsonl.

    Both are negative log-likelihoods in nats per label, so that they can be compared; the training loss includes
    dropout. In a terminal each line has its own symbol; --output draws the plot as a page or a picture.
    """

    runs: PositionalPaths
    """run folders, finished or not"""
    output: OptionalOutput = None
    """file for a page (.html) or a picture (.svg), instead of a plot in the terminal"""
    follow: bool = False
    """redraw when there is new data, until all runs are finished; Ctrl-C stops it"""

    def execute(self) -> int:
        """Run the command; return the exit code."""
        _check_arguments(self)
        if self.follow:
            return _follow_runs(self.runs)
        plots = _read_curves(self.runs)
        if plots.is_empty:
            raise RunError(
                f"{self.runs[0]}: has no measurements yet; the first ones come after 50 updates, or with the first "
                "validation (training.evaluate_every); --follow waits for it"
            )
        if self.output is None:
            with open_output(None) as out:
                out.write(_draw_text(plots))
            return 0
        text = plots.to_html() if self.output.suffix == ".html" else plots.to_svg()
        with wrap_write_errors(self.output, "--output"):
            self.output.write_text(text, encoding="utf-8")
        log(f"written: {self.output}")
        return 0


def _check_arguments(args: CurveArguments) -> None:
    """Raise `RunError` if a run folder is missing, and `RecipeError` if the output has another suffix than .html and
    .svg or is combined with --follow.
    """
    for folder in args.runs:
        check_path_name(folder)
        if not folder.is_dir():
            raise RunError(f"{folder}: no such run folder; give the `output` of a recipe that is trained")
    if args.output is None:
        return
    if args.follow:
        raise RecipeError("--follow: draws in the terminal; leave --output out, or leave --follow out")
    if args.output.suffix not in (".html", ".svg"):
        raise RecipeError(f"--output: {args.output}; the name must end in .html or .svg")
    require_writable(args.output, "--output")


def _read_curves(runs: Sequence[Path]) -> CurvePlots:
    """Read the learning curves of runs."""
    from heedful.runs.checkpoints import METRICS_FILE
    from heedful.runs.learning_curve import CurvePlots, read_curve

    return CurvePlots({str(folder): read_curve(folder / METRICS_FILE) for folder in runs})


def _draw_text(plots: CurvePlots) -> str:
    """Draw the curves as text that fits the terminal."""
    size = shutil.get_terminal_size((80, 24))
    return plots.to_text(width=min(size.columns, _MAX_COLUMNS), height=min(size.lines - 1, _MAX_ROWS))


def _follow_runs(runs: Sequence[Path]) -> int:
    """Redraw the curves in place in a terminal until all runs are finished; elsewhere print one plot after the other.
    Return the exit code.
    """
    if not sys.stdout.isatty():
        with open_output(None) as out:

            def show(text: str) -> None:
                out.write(f"{text}\n")
                out.flush()

            return _redraw_until_finished(runs, show)

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), auto_refresh=False) as live:
        return _redraw_until_finished(runs, lambda text: live.update(Text(text), refresh=True))


def _redraw_until_finished(runs: Sequence[Path], show: Callable[[str], None]) -> int:
    """Call `show` with the drawn curves whenever they change, until all runs are finished or Ctrl-C; return the exit
    code.
    """
    previous = ""
    while True:
        plots = _read_curves(runs)
        if (drawing := _draw_text(plots)) != previous:
            show(drawing)
            previous = drawing
        if all(curve.finished for curve in plots.curves.values()):
            return 0
        try:
            time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            return 0
