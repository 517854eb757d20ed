from __future__ import annotations

import random

import pytest

from heedful.inspection.plots import MARKERS, PlotLine, draw_text_plot

RISING = PlotLine("rising", tuple((x, 2.0 * x) for x in range(11)))
FLAT = PlotLine("flat", ((0, 20.0), (10, 20.0)))


def cells(plot: str) -> list[str]:
    """What stands inside the axes, row by row, from above."""
    return [line[4:] for line in plot.splitlines() if "┤" in line or "│" in line]


def test_points_lie_where_their_values_do() -> None:
    plot = draw_text_plot([RISING, FLAT], x_name="updates", y_name="nats", width=45, height=26)
    rows = cells(plot)
    assert len(rows) == 21
    for x in range(10):
        column = [row[4 * x] if 4 * x < len(row) else " " for row in rows]
        assert column[20 - 2 * x] == MARKERS[0], "a row for each unit of y, and four columns for one of x"
        assert column[0] == MARKERS[1], "a line without points between its ends is drawn all the same"
        assert sum(mark != " " for mark in column) == 2
    lines = plot.splitlines()
    assert lines[0] == "nats"
    assert lines[-2:] == [f"{MARKERS[0]} rising", f"{MARKERS[1]} flat"]
    assert lines[-3].split() == ["0", "updates", "10"]
    assert [line[:4].strip(" ┤") for line in lines if "┤" in line] == ["20", "15", "10", "5", "0"]


@pytest.mark.parametrize(("width", "height"), [(1, 1), (20, 12), (80, 24), (110, 30)])
def test_it_fits_where_there_is_room(width: int, height: int) -> None:
    rng = random.Random(width)
    noisy = [PlotLine(f"line {n}", tuple((x, rng.gauss(5, 3)) for x in range(300))) for n in range(3)]
    lines = draw_text_plot(noisy, x_name="updates", y_name="nats", width=width, height=height).splitlines()
    assert max(map(len, lines)) <= max(width, 20)
    assert len(lines) <= max(height, 16)


def test_one_point_is_a_plot_and_none_is_not() -> None:
    assert MARKERS[0] in draw_text_plot([PlotLine("a", ((3, 1.0),))], x_name="x", y_name="y", width=40, height=14)
    with pytest.raises(ValueError, match="without a point"):
        draw_text_plot([PlotLine("a", ())], x_name="x", y_name="y", width=40, height=14)


def test_names_cannot_steer_a_terminal() -> None:
    plot = draw_text_plot([PlotLine("a\x1b[2Jb", ((3, 1.0),))], x_name="x", y_name="y", width=40, height=14)
    assert "\x1b" not in plot
