"""Line plots in plain characters for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from heedful.inspection.plots import PlotLine, escape_unprintable
from heedful.inspection.scales import LINEAR
from heedful.inspection.svg import Number

MARKERS: Final = "·●+■x▲o◆"
"""What the points of each line are drawn with; with more lines they begin anew."""
_MIN_SIZE: Final = 10
"""Columns and rows below which nothing can be seen."""


def draw_text_plot(lines: Sequence[PlotLine], *, x_name: str, y_name: str, width: int, height: int) -> str:
    """Draw a plot of `width` columns and `height` rows, with labels, ticks and legend.

    Points are joined by straight lines; later lines cover earlier ones.

    Raises:
        ValueError: no line has a point.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        raise ValueError("a plot without a point: give at least one line that has one")
    ticks = LINEAR.make_ticks(min(y for _, y in points), max(y for _, y in points))
    margin = max(len(label) for _, label in ticks) + 2
    columns = max(_MIN_SIZE, width - margin)
    rows = max(_MIN_SIZE, height - len(lines) - 3)  # names of both axes, ticks below
    panel = _CellGrid(
        columns, rows, (min(x for x, _ in points), max(x for x, _ in points)), (ticks[0][0], ticks[-1][0])
    )
    cells = [[" "] * columns for _ in range(rows)]
    for number, line in enumerate(lines):
        for column, row in panel.trace_line(line.points):
            cells[row][column] = MARKERS[number % len(MARKERS)]
    named = {panel.to_row(value): label for value, label in ticks}
    panel_lines = [
        f"{named[row]:>{margin - 2}} ┤{''.join(line)}" if row in named else f"{'':{margin - 1}}│{''.join(line)}"
        for row, line in enumerate(cells)
    ]
    low, high = (f"{value:,.6g}" for value in panel.x_range)
    x_labels = f"{low}{escape_unprintable(x_name):^{max(0, columns - len(low) - len(high))}}{high}"
    legend = [f"{MARKERS[number % len(MARKERS)]} {escape_unprintable(line.name)}" for number, line in enumerate(lines)]
    axis = f"{'':{margin - 1}}└{'─' * columns}"
    text = [escape_unprintable(y_name), *panel_lines, axis, " " * margin + x_labels, *legend]
    return "\n".join(line.rstrip() for line in text) + "\n"


class _CellGrid:
    """Mapping from values to character cells; the highest value is in row 0."""

    def __init__(self, columns: int, rows: int, x_range: tuple[Number, Number], y_range: tuple[Number, Number]) -> None:
        self.columns = columns
        self.rows = rows
        self.x_range = x_range
        self.y_range = y_range

    def to_column(self, x: Number) -> int:
        """Return the column of an x value."""
        low, high = self.x_range
        return round((x - low) / (high - low) * (self.columns - 1)) if high > low else self.columns // 2

    def to_row(self, y: Number) -> int:
        """Return the row of a y value."""
        low, high = self.y_range
        return round((high - y) / (high - low) * (self.rows - 1))

    def trace_line(self, points: Sequence[tuple[Number, Number]]) -> list[tuple[int, int]]:
        """Return the cells of a line: its points, and one in each column between two of them."""
        cells = [(self.to_column(x), self.to_row(y)) for x, y in points[:1]]
        for (x, y), (next_x, next_y) in pairwise(points):
            begin, end = self.to_column(x), self.to_column(next_x)
            for column in range(begin + 1, end):
                fraction = (column - begin) / (end - begin)
                cells.append((column, self.to_row(y + fraction * (next_y - y))))
            cells.append((end, self.to_row(next_y)))
        return cells
