"""A notebook for each deck, whose cells draw the figures from the trained models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from heedful.atomic_io import atomic_replace
from heedful.lecture.contents import Deck

_START = """\
from pathlib import Path

from heedful.lecture.figures import FIGURES, LectureRuns

runs = LectureRuns(Path(".."))  # the folder of the lecture, as seen from this notebook
"""


def write_notebook(deck: Deck, path: Path) -> None:
    """Write the notebook of a deck, in the format of Jupyter (version 4.5).

    Its cells load the models of the folder above it. A figure is drawn again when its cell is run. To see
    another recipe, change it, remove the run folder of the model, train again and run the cell.

    Args:
        deck: the deck.
        path: file with the suffix .ipynb, in a folder inside that of the lecture.

    Raises:
        TrainingError: the file cannot be written.
    """
    cells = [_build_markdown(f"# Deck {deck.number}: {deck.title}\n\n{deck.lecturer}"), _build_code(_START)]
    for number, slide in enumerate(deck.slides, 1):
        equation = "".join(f"\n\n    {line}" for line in slide.equation.splitlines() if line)
        questions = "".join(f"\n\n**{each.question}** {each.answer}" for each in slide.questions)
        cells.append(_build_markdown(f"## {number}. {slide.heading}\n\n{slide.explanation}{equation}{questions}"))
        cells += [_build_code(f'FIGURES["{name}"].draw(runs)') for name in slide.figures]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    content = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    path.parent.mkdir(exist_ok=True)
    with atomic_replace(path) as beside:
        beside.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _build_markdown(text: str) -> dict[str, Any]:
    """Build a cell of text."""
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _build_code(text: str) -> dict[str, Any]:
    """Build a cell of code that was not run."""
    return {"cell_type": "code", "metadata": {}, "source": text, "execution_count": None, "outputs": []}
