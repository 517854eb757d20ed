"""Lines over an axis in plain characters, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from heedful.inspection.plots import Line, readable
from heedful.inspection.scales import LINEAR, Number

MARKS: Final = "·●+■x▲o◆"
"""What the points of each line are drawn with; with more lines they begin anew."""
_LEAST: Final = 10
"""Columns and rows below which nothing can be seen."""


def text_plot(lines: Sequence[Line], *, x_name: str, y_name: str, width: int, height: int) -> str:
    """A plot of so many columns and rows, its names, ticks and legend among them; where lines cross, the last is seen.

    Between its points a line is drawn as if it were straight.

    Raises:
        ValueError: no line has a point.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        raise ValueError("a plot without a point: give at least one line that has one")
    ticks = LINEAR.round_ends(min(y for _, y in points), max(y for _, y in points))
    margin = max(len(label) for _, label in ticks) + 2
    columns = max(_LEAST, width - margin)
    rows = max(_LEAST, height - len(lines) - 3)  # names of both axes, ticks below
    panel = _Panel(columns, rows, (min(x for x, _ in points), max(x for x, _ in points)), (ticks[0][0], ticks[-1][0]))
    cells = [[" "] * columns for _ in range(rows)]
    for number, line in enumerate(lines):
        for column, row in panel.course(line.points):
            cells[row][column] = MARKS[number % len(MARKS)]
    named = {panel.row(value): label for value, label in ticks}
    drawn = [
        f"{named[row]:>{margin - 2}} ┤{''.join(line)}" if row in named else f"{'':{margin - 1}}│{''.join(line)}"
        for row, line in enumerate(cells)
    ]
    low, high = (f"{value:,.6g}" for value in panel.across)
    below = f"{low}{readable(x_name):^{max(0, columns - len(low) - len(high))}}{high}"
    legend = [f"{MARKS[number % len(MARKS)]} {readable(line.name)}" for number, line in enumerate(lines)]
    axis = f"{'':{margin - 1}}└{'─' * columns}"
    text = [readable(y_name), *drawn, axis, " " * margin + below, *legend]
    return "\n".join(line.rstrip() for line in text) + "\n"


class _Panel:
    """From values to cells; the highest value is in row 0."""

    def __init__(self, columns: int, rows: int, across: tuple[Number, Number], up: tuple[Number, Number]) -> None:
        self.columns = columns
        self.rows = rows
        self.across = across
        self.up = up

    def column(self, x: Number) -> int:
        low, high = self.across
        return round((x - low) / (high - low) * (self.columns - 1)) if high > low else self.columns // 2

    def row(self, y: Number) -> int:
        low, high = self.up
        return round((high - y) / (high - low) * (self.rows - 1))

    def course(self, points: Sequence[tuple[Number, Number]]) -> list[tuple[int, int]]:
        """The cells of a line: its points, and one in each column between two of them."""
        found = [(self.column(x), self.row(y)) for x, y in points[:1]]
        for (x, y), (next_x, next_y) in pairwise(points):
            begin, end = self.column(x), self.column(next_x)
            for column in range(begin + 1, end):
                share = (column - begin) / (end - begin)
                found.append((column, self.row(y + share * (next_y - y))))
            found.append((end, self.row(next_y)))
        return found
