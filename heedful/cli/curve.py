"""`heedful curve`: training and validation loss by updates, while a run trains or afterwards."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import tyro

from heedful.cli.arguments import PositionalPaths, parse
from heedful.cli.output import destination, require_room, say, writing
from heedful.errors import RecipeError, RunError
from heedful.files import require_name

if TYPE_CHECKING:
    from heedful.runs.curve_pictures import CurvePictures

METRICS: Final = "metrics.jsonl"
_EVERY: Final = 2.0
"""Seconds between two looks at the files."""
_MOST_COLUMNS, _MOST_ROWS = 110, 30


@dataclass(frozen=True)
class Arguments:
    """Training and validation loss of runs by updates, of what their metrics.jsonl holds by now.

    Both are negative log-likelihoods in nats per label, so that they can be compared; training is measured with
    dropout. In a terminal each line has a sign of its own; --output draws them into a page or a picture.
    """

    runs: PositionalPaths
    """run folders, finished or not"""
    output: Annotated[Path | None, tyro.conf.arg(aliases=("-o",), metavar="PATH", help_behavior_hint="")] = None
    """file for a page (.html) or a picture (.svg), instead of a plot in the terminal"""
    follow: bool = False
    """draw again whenever there is something new, until all runs are finished; Ctrl-C ends it"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful curve")
    _check(given)
    if given.follow:
        return _follow(given.runs)
    pictures = _read(given.runs)
    if pictures.empty:
        raise RunError(
            f"{given.runs[0]}: nothing was measured yet; the first line comes after 50 updates, or with the first "
            "validation (training.evaluate_every); --follow waits for it"
        )
    if given.output is None:
        with destination(None) as out:
            out.write(_drawn(pictures))
        return 0
    text = pictures.html() if given.output.suffix == ".html" else pictures.svg()
    with writing(given.output, "--output"):
        given.output.write_text(text, encoding="utf-8")
    say(f"written: {given.output}")
    return 0


def _check(given: Arguments) -> None:
    for folder in given.runs:
        require_name(folder)
        if not folder.is_dir():
            raise RunError(f"{folder}: there is no such run folder; name the `output` of a recipe that is trained")
    if given.output is None:
        return
    if given.follow:
        raise RecipeError("--follow: draws in the terminal; leave --output out, or leave --follow out")
    if given.output.suffix not in (".html", ".svg"):
        raise RecipeError(f"--output: {given.output}; the name must end in .html or .svg")
    require_room(given.output, "--output")


def _read(runs: Sequence[Path]) -> CurvePictures:
    from heedful.runs.curve_pictures import CurvePictures
    from heedful.runs.learning_curve import read_curve

    return CurvePictures({str(folder): read_curve(folder / METRICS) for folder in runs})


def _drawn(pictures: CurvePictures) -> str:
    size = shutil.get_terminal_size((80, 24))
    return pictures.text(width=min(size.columns, _MOST_COLUMNS), height=min(size.lines - 1, _MOST_ROWS))


def _follow(runs: Sequence[Path]) -> int:
    """In a terminal at one place; elsewhere one plot below the other."""
    if not sys.stdout.isatty():
        with destination(None) as out:

            def show(text: str) -> None:
                out.write(f"{text}\n")
                out.flush()

            return _redraw(runs, show)

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), auto_refresh=False) as live:
        return _redraw(runs, lambda text: live.update(Text(text), refresh=True))


def _redraw(runs: Sequence[Path], show: Callable[[str], None]) -> int:
    before = ""
    while True:
        pictures = _read(runs)
        if (now := _drawn(pictures)) != before:
            show(now)
            before = now
        if all(curve.finished for curve in pictures.curves.values()):
            return 0
        try:
            time.sleep(_EVERY)
        except KeyboardInterrupt:
            return 0
