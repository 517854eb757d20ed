"""The figures of the lecture, by name; each module draws those of one subject."""

from __future__ import annotations

from collections.abc import Mapping

from heedful.lecture.figures import answers, claims, pictures, stories, translation, understanding
from heedful.lecture.figures.figure import FigureContent, LectureFigure, LectureRuns, get_figures

__all__ = ["FIGURES", "FigureContent", "LectureFigure", "LectureRuns"]

assert all((answers, claims, pictures, stories, translation, understanding))
FIGURES: Mapping[str, LectureFigure] = get_figures()
"""All figures by name."""
