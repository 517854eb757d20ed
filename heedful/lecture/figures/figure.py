"""What a figure of the lecture is, and the trained models that it is drawn from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, final

from heedful.inspection.record import InspectionRecord


@final
@dataclass(frozen=True)
class FigureContent:
    """A picture with all that is shown beside it.

    Attributes:
        picture: SVG.
        caption: what is to be seen, with the numbers that were measured, in a few sentences.
        record: the record that it shows, for the interactive view; None for plots of several models.
        view: view of the interactive page that opens first.
        command: the heedful command that makes it, run in the folder of the lecture.
    """

    picture: str
    caption: str
    record: InspectionRecord | None = None
    view: str = "alignment"
    command: str = ""

    def _repr_html_(self) -> str:
        """Return the picture and its caption for a notebook."""
        return f"<figure>{self.picture}<figcaption>{escape(self.caption)}</figcaption></figure>"


@final
class LectureRuns:
    """The trained models of a lecture; each is loaded once.

    Args:
        folder: folder of the lecture.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.load = cache(self._load)

    def get_run_folder(self, name: str) -> Path:
        """Return the run folder of a model."""
        return self.folder / "runs" / name

    def _load(self, name: str) -> Any:
        """Return the predictor of a model."""
        from heedful.runs.load import load

        return load(self.get_run_folder(name), device="cpu")


@final
@dataclass(frozen=True)
class LectureFigure:
    """A figure of the lecture.

    Attributes:
        name: name of its files.
        title: its heading.
        models: names of the models that it needs.
        draw: draws it.
    """

    name: str
    title: str
    models: tuple[str, ...]
    draw: Callable[[LectureRuns], FigureContent]


_figures: dict[str, LectureFigure] = {}


def register_figure(
    name: str, title: str, *, models: tuple[str, ...] = ()
) -> Callable[[Callable[[LectureRuns], FigureContent]], Callable[[LectureRuns], FigureContent]]:
    """Return a decorator that registers the function that draws a figure.

    Args:
        name: name of its files.
        title: its heading.
        models: names of the models that it needs.
    """

    def register(draw: Callable[[LectureRuns], FigureContent]) -> Callable[[LectureRuns], FigureContent]:
        _figures[name] = LectureFigure(name, title, models, draw)
        return draw

    return register


def get_figures() -> Mapping[str, LectureFigure]:
    """Return all registered figures by name."""
    return _figures


def stack_pictures(pictures: Sequence[str], *, gap: float = 12.0) -> str:
    """Return SVG pictures below each other as one picture, `gap` pixels apart."""
    boxes = [re.search(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', picture) for picture in pictures]
    parts, top, width = [], 0.0, 0.0
    for picture, box in zip(pictures, boxes, strict=True):
        assert box is not None, "all pictures have a view box"
        height = float(box[4])
        width = max(width, float(box[3]))
        start = picture.index("<svg")
        placed = f'<svg x="0" y="{top:.1f}" width="{box[3]}" height="{box[4]}"'
        parts.append(placed + re.sub(r'\s(width|height)="[^"]*"', "", picture[start + 4 :], count=2))
        top += height + gap
    height = top - gap
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.1f} {height:.1f}" width="{width:.1f}"'
    return "\n".join([f'{head} height="{height:.1f}">', *parts, "</svg>\n"])
