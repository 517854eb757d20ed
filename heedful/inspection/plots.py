"""Line plots, as self-contained SVG and in plain characters for a terminal, with linear and logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

from heedful.inspection.svg import Number, SvgStyle

_FEW_DECADES, _MOST_DECADES = 3, 10
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Scale:
    """A linear axis scale: equal differences are equal distances."""

    def transform(self, value: Number) -> float:
        """Return the position of a value, up to unit and origin."""
        return float(value)

    def inverse_transform(self, position: float) -> float:
        """Return the value at a position."""
        return position

    def make_ticks(self, low: Number, high: Number) -> tuple[tuple[Number, str], ...]:
        """Return four to nine round ticks (value, label) that enclose the values from `low` to `high`."""
        if low == high:
            half = abs(low) / 10 or 1.0
            low, high = low - half, high + half
        step = _round_up_step((high - low) / 5)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        return tuple((i * step, f"{i * step + 0.0:,.{digits}f}") for i in range(first, last + 1))


class LogarithmicScale(Scale):
    """A logarithmic axis scale: equal ratios are equal distances; for values above 0."""

    def transform(self, value: Number) -> float:
        """Return the logarithm to base 10; `ValueError` if the value is not above 0."""
        if value <= 0:
            raise ValueError(
                f"{value} cannot be drawn on a logarithmic axis: give values above 0, or take a linear one"
            )
        return math.log10(value)

    def inverse_transform(self, position: float) -> float:
        """Return the power of 10."""
        power: float = 10.0**position
        return power

    def make_ticks(self, low: Number, high: Number) -> tuple[tuple[Number, str], ...]:
        """Return powers of ten as ticks (value, label) that enclose the values from `low` to `high`; with 2 and 5 times
        these if there are few, and only some if there are many.
        """
        first, last = math.floor(self.transform(low) + 1e-9), math.ceil(self.transform(high) - 1e-9)
        if last - first > _MOST_DECADES:
            stride = -(-(last - first) // _MOST_DECADES)
            return tuple((10.0**n, _format_power(1, n)) for n in range(first, last + stride, stride))
        factors = (1, 2, 5) if last - first <= _FEW_DECADES else (1,)
        marks = [(factor, n) for n in range(first - 1, last + 2) for factor in factors]
        # from the last mark that is not above the lowest value to the first later one that reaches the highest
        start = max(i for i, (factor, n) in enumerate(marks) if factor * 10.0**n <= low * (1 + 1e-9))
        end = next(i for i, (factor, n) in enumerate(marks) if i > start and factor * 10.0**n >= high * (1 - 1e-9))
        return tuple((factor * 10.0**n, _format_power(factor, n)) for factor, n in marks[start : end + 1])


LINEAR, LOGARITHMIC = Scale(), LogarithmicScale()


def _format_power(factor: int, power: int) -> str:
    """Format factor times 10 to the power, as a plain number if that is short."""
    if -4 <= power <= 5:
        return f"{factor * 10**power:,}" if power >= 0 else f"{factor * 10.0**power:.{-power}f}"
    raised = "10" + str(power).translate(_SUPERSCRIPT)
    return raised if factor == 1 else f"{factor}·{raised}"


def _round_up_step(rough: Number) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


_WIDTH, _HEIGHT = 620.0, 320.0
_LEFT, _TOP, _RIGHT, _AXIS = 58.0, 52.0, 24.0, 50.0
_LEGEND_ROW = 20.0
_MAX_MARKERS = 40
_LONGEST_NAME = 80
_LEVEL_ATTRIBUTES = 'class="level" fill="none" stroke="currentColor" stroke-dasharray="1 4"'
_DASHES = ("", "7 4", "2 3", "9 3 2 3")

# Eight hues that also differ in lightness, on white and on black; with more lines, dashes distinguish them.
_LIGHT = ("#0b63b5", "#c2410c", "#15803d", "#7e22ce", "#be123c", "#0e7490", "#854d0e", "#4b5563")
_DARK = ("#6cb2f7", "#fb923c", "#4ade80", "#c792f5", "#fb7185", "#22d3ee", "#facc15", "#cbd5e1")


def _build_css_rules(grid: str, level: str, hues: Sequence[str]) -> str:
    """Return CSS rules for the colours of the grid, of reference lines (`level`), and of the plot's lines (`hues`)."""
    rules = [f"grid{{stroke:{grid}", f"level{{color:{level}", *(f"hue{i}{{color:{hue}" for i, hue in enumerate(hues))]
    return "".join(f".heedful-plot .{rule}}}" for rule in rules)


PLOT_STYLE = SvgStyle(
    "heedful-plot",
    faint_colours=("#6b7180", "#9aa0af"),
    extra_rules=(_build_css_rules("#d9dce3", "#6b7180", _LIGHT), _build_css_rules("#363842", "#9aa0af", _DARK)),
)
"""With colours of a grid, of levels, and of eight hues, `hue0` and so on."""


@dataclass(frozen=True)
class PlotLine:
    """One line of a plot.

    Attributes:
        name: its name in the legend.
        points: (x, y), joined in this order.
        spread: lowest and highest y of each point, drawn as a bar; one per point, or none.
        band: the same, drawn as an area around the line; one per point, or none.
    """

    name: str
    points: tuple[tuple[Number, Number], ...]
    spread: tuple[tuple[Number, Number] | None, ...] = ()
    band: tuple[tuple[Number, Number], ...] = ()

    def __post_init__(self) -> None:
        for what, bounds in (("spreads", self.spread), ("bounds", self.band)):
            if bounds and len(bounds) != len(self.points):
                raise ValueError(f"line {self.name!r}: {len(bounds)} {what} for {len(self.points)} points")
        numbers = [*self.points, *self.bounds]
        if not all(math.isfinite(number) for pair in numbers for number in pair):
            raise ValueError(f"line {self.name!r}: holds a number that is not finite and cannot be drawn; leave it out")

    @property
    def bounds(self) -> list[tuple[Number, Number]]:
        """All pairs of lowest and highest y."""
        return [low_high for low_high in (*self.spread, *self.band) if low_high is not None]


@dataclass(frozen=True)
class ReferenceLine:
    """A constant value of y, such as a baseline: a dotted horizontal line."""

    name: str
    y: Number

    def __post_init__(self) -> None:
        if not math.isfinite(self.y):
            raise ValueError(f"level {self.name!r}: {self.y} is not finite and cannot be drawn; leave it out")


@dataclass(frozen=True)
class PlotAxis:
    """Mapping from values to pixels, with ticks.

    Attributes:
        low: the value at pixel `start`.
        high: the value at pixel `end`.
        ticks: (value, label).
        scale: linear or logarithmic.
    """

    low: Number
    high: Number
    start: Number
    end: Number
    ticks: tuple[tuple[Number, str], ...]
    scale: Scale = LINEAR

    def to_pixel(self, value: Number) -> float:
        """Return the pixel of a value."""
        low, high = self.scale.transform(self.low), self.scale.transform(self.high)
        return self.start + (self.scale.transform(value) - low) / (high - low) * (self.end - self.start)


def draw_line_plot(
    lines: Sequence[PlotLine],
    *,
    title: str,
    x_name: str,
    y_name: str,
    x_ticks: Sequence[tuple[Number, str]] | None = None,
    y_include: Number | None = None,
    x_scale: Scale = LINEAR,
    y_scale: Scale = LINEAR,
    levels: Sequence[ReferenceLine] = (),
) -> str:
    """Draw a line plot as SVG, with a legend below and a tooltip on each point. `levels` are horizontal lines to
    compare with; `y_include` is a value that the vertical axis must show; `x_ticks` replaces the computed ticks.

    Text and colours follow light and dark mode; nothing is loaded from anywhere.

    Args:
        lines: lines to draw; those without points appear in the legend only.
        title: heading.
        x_name: label below the horizontal axis.
        y_name: label above the vertical axis.
        x_ticks: (value, label) on the horizontal axis, if values stand for something else.
        y_include: a value that the vertical axis must include, such as 0.
        x_scale: scale of the horizontal axis.
        y_scale: scale of the vertical axis.
        levels: constant values to compare with, last in the legend.

    Raises:
        ValueError: no line has a point, or a value cannot be shown on a logarithmic axis.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        raise ValueError("a plot without a point: give at least one line that has one")
    xs, ys = [x for x, _ in points], [y for _, y in points]
    ys += [bound for line in lines for low_high in line.bounds for bound in low_high]
    ys += [*(level.y for level in levels), *([] if y_include is None else [y_include])]
    across = _build_axis(xs, x_scale, start=0, end=_WIDTH) if x_ticks is None else _build_named_axis(x_ticks, x_scale)
    picture = _LinePlot(lines, levels, across, _build_axis(ys, y_scale, start=_HEIGHT, end=0), title, x_name, y_name)
    return picture.render()


def escape_unprintable(text: str) -> str:
    """Replace every unprintable character by its code point in brackets."""
    return "".join(c if c.isprintable() else f"[U+{ord(c):04X}]" for c in text)


def _build_axis(values: Sequence[Number], scale: Scale, *, start: Number, end: Number) -> PlotAxis:
    """Build an axis from pixel `start` to pixel `end` that covers the values and ends on ticks."""
    ticks = scale.make_ticks(min(values), max(values))
    return PlotAxis(ticks[0][0], ticks[-1][0], start, end, ticks, scale)


def _build_named_axis(ticks: Sequence[tuple[Number, str]], scale: Scale) -> PlotAxis:
    """Build a horizontal axis with the given ticks (value, label), with half a step of room at both ends."""
    positions = [scale.transform(value) for value, _ in ticks]
    margin = 0.5 * (max(positions) - min(positions)) / (len(positions) - 1) if len(positions) > 1 else 0.5
    low, high = scale.inverse_transform(min(positions) - margin), scale.inverse_transform(max(positions) + margin)
    return PlotAxis(low, high, 0, _WIDTH, tuple(ticks), scale)


@dataclass(frozen=True)
class _LinePlot:
    """A line plot's content and axes; lengths in pixels from the upper left corner of the panel."""

    lines: Sequence[PlotLine]
    levels: Sequence[ReferenceLine]
    x_axis: PlotAxis
    y_axis: PlotAxis
    title: str
    x_name: str
    y_name: str

    def render(self) -> str:
        """Return the plot as an SVG file."""
        height = _TOP + _HEIGHT + _AXIS + _LEGEND_ROW * (len(self.lines) + len(self.levels)) + 10
        name = _escape_text(self.title)
        heading = f'<text x="0" y="-30" font-size="15" font-weight="600">{name}</text>'
        line_elements = [part for i, line in enumerate(self.lines) for part in self._draw_line(i, line)]
        return PLOT_STYLE.render_svg(
            [heading, *self._draw_grid(), *self._draw_levels(), *line_elements, *self._draw_legend()],
            name=name,
            box=(-_LEFT, -_TOP, _LEFT + _WIDTH + _RIGHT, height),
            font=12,
        )

    def _draw_grid(self) -> list[str]:
        """Draw the grid lines, tick labels and axis labels."""
        parts = [f'<text class="faint" x="0" y="-10">{_escape_text(self.y_name)}</text>']
        for value, label in self.y_axis.ticks:
            y = self.y_axis.to_pixel(value)
            parts.append(f'<path class="grid" d="M0 {y:.1f}H{_WIDTH:.0f}"/>')
            parts.append(
                f'<text class="faint" x="-8" y="{y:.1f}" dy=".34em" text-anchor="end">{_escape_text(label)}</text>'
            )
        for value, label in self.x_axis.ticks:
            x = self.x_axis.to_pixel(value)
            parts.append(f'<path class="grid" d="M{x:.1f} {_HEIGHT:.0f}v5"/>')
            parts.append(
                f'<text class="faint" x="{x:.1f}" y="{_HEIGHT + 19:.0f}" '
                f'text-anchor="middle">{_escape_text(label)}</text>'
            )
        middle = f'x="{_WIDTH / 2:.0f}" y="{_HEIGHT + 39:.0f}" text-anchor="middle"'
        return [*parts, f'<text class="faint" {middle}>{_escape_text(self.x_name)}</text>']

    def _draw_levels(self) -> list[str]:
        """Draw the reference lines."""
        return [
            f'<path {_LEVEL_ATTRIBUTES} d="M0 {self.y_axis.to_pixel(level.y):.1f}H{_WIDTH:.0f}">'
            f"<title>{_escape_text(level.name)}: {level.y:.4g}</title></path>"
            for level in self.levels
        ]

    def _draw_band(self, line: PlotLine) -> list[str]:
        """Draw the band around a line; a bar if it has only one point."""
        bounds = [(x, *low_high) for (x, _), low_high in zip(line.points, line.band, strict=True)]
        edge = [*((x, low) for x, low, _ in bounds), *((x, high) for x, _, high in reversed(bounds))]
        course = "L".join(f"{self.x_axis.to_pixel(x):.1f} {self.y_axis.to_pixel(y):.1f}" for x, y in edge)
        return [f'<path class="band" fill="currentColor" fill-opacity=".13" stroke-opacity=".25" d="M{course}Z"/>']

    def _draw_line(self, number: int, line: PlotLine) -> list[str]:
        # Points with bars are drawn next to those of other lines, or their bars would hide each other.
        """Draw a line with its band, bars and points; its colour and dashes depend on its `number` among the lines."""
        offset = min(5.0, 60 / len(self.lines)) * (number - (len(self.lines) - 1) / 2) if line.spread else 0.0
        pixels = [(self.x_axis.to_pixel(x) + offset, self.y_axis.to_pixel(y)) for x, y in line.points]
        parts = [f'<g class="hue{number % len(_LIGHT)}" stroke="currentColor" fill="none">']
        if line.band:
            parts += self._draw_band(line)
        for (x, _), spread in zip(pixels, line.spread, strict=False):
            if spread is not None:
                low, high = (self.y_axis.to_pixel(bound) for bound in spread)
                parts.append(f'<path class="spread" opacity=".55" d="M{x:.1f} {low:.1f}V{high:.1f}"/>')
        if len(pixels) > 1:
            course = "L".join(f"{x:.1f} {y:.1f}" for x, y in pixels)
            parts.append(f'<path class="course" stroke-width="2" {_dash_attribute(number)}d="M{course}"/>')
        if len(pixels) <= _MAX_MARKERS:
            for pixel, (x, y) in zip(pixels, line.points, strict=True):
                centre = f'cx="{pixel[0]:.1f}" cy="{pixel[1]:.1f}"'
                parts.append(
                    f'<circle {centre} r="3.2" fill="currentColor"><title>{_escape_text(line.name)}: '
                    f"{self._format_x(x)}, {y:.4g}"
                    "</title></circle>"
                )
        return [*parts, "</g>"]

    def _format_x(self, value: Number) -> str:
        """Return the tick label of an x value, or the number."""
        return next((_escape_text(label) for tick, label in self.x_axis.ticks if tick == value), f"{value:.4g}")

    def _draw_legend(self) -> list[str]:
        """Draw a legend entry for each line, also for lines without points, then for each reference line."""
        rows = []
        for number, line in enumerate(self.lines):
            name = line.name if line.points else f"{line.name} (no points)"
            label = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
            attributes = (
                f'class="hue{number % len(_LIGHT)}" stroke="currentColor" stroke-width="2" {_dash_attribute(number)}'
            )
            rows.append((attributes, label))
        rows += [(f"{_LEVEL_ATTRIBUTES} ", level.name) for level in self.levels]
        parts = []
        for number, (attributes, name) in enumerate(rows):
            y = _HEIGHT + _AXIS + _LEGEND_ROW * (number + 0.5)
            parts += [
                f'<path {attributes}d="M0 {y - 4:.1f}h26"/>',
                f'<text x="34" y="{y:.1f}">{_escape_text(name)}</text>',
            ]
        return parts


def _dash_attribute(number: int) -> str:
    """Return the SVG attribute for the dashes of a line, by its number; empty if the line is solid."""
    pattern = _DASHES[number // len(_LIGHT) % len(_DASHES)]
    return f'stroke-dasharray="{pattern}" ' if pattern else ""


def _escape_text(text: str) -> str:
    """Return text with unprintable and special characters escaped."""
    return escape(escape_unprintable(text))


MARKERS: Final = "·●+■x▲o◆"
"""What the points of each line are drawn with; with more lines they begin anew."""
_MIN_SIZE: Final = 10
"""Columns and rows below which nothing can be seen."""


def draw_text_plot(lines: Sequence[PlotLine], *, x_name: str, y_name: str, width: int, height: int) -> str:
    """Draw a plot of `width` columns and `height` rows, with ticks, legend, and the names of both axes.

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
