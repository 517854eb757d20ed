"""Lines over an axis, as one self-contained SVG: scores by length, learning curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from heedful.inspection.scales import LINEAR, Number, Scale
from heedful.inspection.svg import Look

_WIDTH, _HEIGHT = 620.0, 320.0
_LEFT, _TOP, _RIGHT, _AXIS = 58.0, 52.0, 24.0, 50.0
_LEGEND_ROW = 20.0
_MOST_MARKS = 40
_LONGEST_NAME = 80
_LEVEL = 'class="level" fill="none" stroke="currentColor" stroke-dasharray="1 4"'
_DASHES = ("", "7 4", "2 3", "9 3 2 3")

# Eight hues that also differ in lightness, on white and on black; with more lines, dashes tell them apart.
_LIGHT = ("#0b63b5", "#c2410c", "#15803d", "#7e22ce", "#be123c", "#0e7490", "#854d0e", "#4b5563")
_DARK = ("#6cb2f7", "#fb923c", "#4ade80", "#c792f5", "#fb7185", "#22d3ee", "#facc15", "#cbd5e1")


def _rules(grid: str, level: str, hues: Sequence[str]) -> str:
    rules = [f"grid{{stroke:{grid}", f"level{{color:{level}", *(f"hue{i}{{color:{hue}" for i, hue in enumerate(hues))]
    return "".join(f".heedful-plot .{rule}}}" for rule in rules)


PLOT = Look(
    "heedful-plot",
    faint=("#6b7180", "#9aa0af"),
    more=(_rules("#d9dce3", "#6b7180", _LIGHT), _rules("#363842", "#9aa0af", _DARK)),
)
"""With colours of a grid, of levels, and of eight hues, `hue0` and so on."""


@dataclass(frozen=True)
class Line:
    """One line of a plot.

    Attributes:
        name: what the legend calls it.
        points: (x, y), joined in this order.
        spread: the lowest and highest y that a point may stand for, drawn as a bar; one for each point, or none.
        band: the same drawn as an area around the line; one for each point, or none.
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
            raise ValueError(f"line {self.name!r}: holds a number that is not finite, which has no place in a plot")

    @property
    def bounds(self) -> list[tuple[Number, Number]]:
        """All that there is of lowest and highest y."""
        return [low_high for low_high in (*self.spread, *self.band) if low_high is not None]


@dataclass(frozen=True)
class Level:
    """A value of y that is the same everywhere, such as a baseline: a dotted line across the plot."""

    name: str
    y: Number

    def __post_init__(self) -> None:
        if not math.isfinite(self.y):
            raise ValueError(f"level {self.name!r}: {self.y} is not finite and has no place in a plot")


@dataclass(frozen=True)
class Axis:
    """From values to pixels, and the values that are written beside it.

    Attributes:
        low: the value at pixel `start`.
        high: the value at pixel `end`.
        ticks: (value, label).
        scale: how the values between are spread.
    """

    low: Number
    high: Number
    start: Number
    end: Number
    ticks: tuple[tuple[Number, str], ...]
    scale: Scale = LINEAR

    def pixel(self, value: Number) -> float:
        """Where a value lies."""
        low, high = self.scale.place(self.low), self.scale.place(self.high)
        return self.start + (self.scale.place(value) - low) / (high - low) * (self.end - self.start)


def line_plot(
    lines: Sequence[Line],
    *,
    title: str,
    x_name: str,
    y_name: str,
    x_ticks: Sequence[tuple[Number, str]] | None = None,
    y_from: Number | None = None,
    x_scale: Scale = LINEAR,
    y_scale: Scale = LINEAR,
    levels: Sequence[Level] = (),
) -> str:
    """An SVG with one line for each of `lines`, a legend below and a tooltip on each point.

    The text and the colours follow light and dark mode; nothing is loaded from anywhere.

    Args:
        lines: what to draw; those without points are named in the legend only.
        title: a heading.
        x_name: what stands below the horizontal axis.
        y_name: what stands above the vertical one.
        x_ticks: (value, label) along the horizontal axis, where the values stand for something else.
        y_from: a value that the vertical axis must reach, such as 0.
        x_scale: how values are spread along the horizontal axis.
        y_scale: the same for the vertical one.
        levels: values to compare with, named last in the legend.

    Raises:
        ValueError: no line has a point, or one has no place on a logarithmic axis.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        raise ValueError("a plot without a point: give at least one line that has one")
    xs, ys = [x for x, _ in points], [y for _, y in points]
    ys += [bound for line in lines for low_high in line.bounds for bound in low_high]
    ys += [*(level.y for level in levels), *([] if y_from is None else [y_from])]
    across = _axis(xs, x_scale, start=0, end=_WIDTH) if x_ticks is None else _named_axis(x_ticks, x_scale)
    picture = _Picture(lines, levels, across, _axis(ys, y_scale, start=_HEIGHT, end=0), title, x_name, y_name)
    return picture.svg()


def readable(text: str) -> str:
    """The text with a sign for every character that a page or a terminal would not bear."""
    return "".join(c if c.isprintable() else f"[U+{ord(c):04X}]" for c in text)


def _axis(values: Sequence[Number], scale: Scale, *, start: Number, end: Number) -> Axis:
    """Ends on marks."""
    ticks = scale.round_ends(min(values), max(values))
    return Axis(ticks[0][0], ticks[-1][0], start, end, ticks, scale)


def _named_axis(ticks: Sequence[tuple[Number, str]], scale: Scale) -> Axis:
    """Half a step of room before the first and behind the last name."""
    places = [scale.place(value) for value, _ in ticks]
    room = 0.5 * (max(places) - min(places)) / (len(places) - 1) if len(places) > 1 else 0.5
    low, high = scale.value(min(places) - room), scale.value(max(places) + room)
    return Axis(low, high, 0, _WIDTH, tuple(ticks), scale)


@dataclass(frozen=True)
class _Picture:
    """Where everything lies; lengths in pixels, from the upper left corner of the panel."""

    lines: Sequence[Line]
    levels: Sequence[Level]
    across: Axis
    up: Axis
    title: str
    x_name: str
    y_name: str

    def svg(self) -> str:
        height = _TOP + _HEIGHT + _AXIS + _LEGEND_ROW * (len(self.lines) + len(self.levels)) + 10
        name = _text(self.title)
        heading = f'<text x="0" y="-30" font-size="15" font-weight="600">{name}</text>'
        drawn = [part for i, line in enumerate(self.lines) for part in self._line(i, line)]
        return PLOT.file(
            [heading, *self._grid(), *self._levels(), *drawn, *self._legend()],
            name=name,
            box=(-_LEFT, -_TOP, _LEFT + _WIDTH + _RIGHT, height),
            font=12,
        )

    def _grid(self) -> list[str]:
        parts = [f'<text class="faint" x="0" y="-10">{_text(self.y_name)}</text>']
        for value, label in self.up.ticks:
            y = self.up.pixel(value)
            parts.append(f'<path class="grid" d="M0 {y:.1f}H{_WIDTH:.0f}"/>')
            parts.append(f'<text class="faint" x="-8" y="{y:.1f}" dy=".34em" text-anchor="end">{_text(label)}</text>')
        for value, label in self.across.ticks:
            x = self.across.pixel(value)
            parts.append(f'<path class="grid" d="M{x:.1f} {_HEIGHT:.0f}v5"/>')
            parts.append(
                f'<text class="faint" x="{x:.1f}" y="{_HEIGHT + 19:.0f}" text-anchor="middle">{_text(label)}</text>'
            )
        middle = f'x="{_WIDTH / 2:.0f}" y="{_HEIGHT + 39:.0f}" text-anchor="middle"'
        return [*parts, f'<text class="faint" {middle}>{_text(self.x_name)}</text>']

    def _levels(self) -> list[str]:
        return [
            f'<path {_LEVEL} d="M0 {self.up.pixel(level.y):.1f}H{_WIDTH:.0f}">'
            f"<title>{_text(level.name)}: {level.y:.4g}</title></path>"
            for level in self.levels
        ]

    def _area(self, line: Line) -> list[str]:
        """The band of a line; a bar where it has only one point."""
        bounds = [(x, *low_high) for (x, _), low_high in zip(line.points, line.band, strict=True)]
        edge = [*((x, low) for x, low, _ in bounds), *((x, high) for x, _, high in reversed(bounds))]
        course = "L".join(f"{self.across.pixel(x):.1f} {self.up.pixel(y):.1f}" for x, y in edge)
        return [f'<path class="band" fill="currentColor" fill-opacity=".13" stroke-opacity=".25" d="M{course}Z"/>']

    def _line(self, number: int, line: Line) -> list[str]:
        # Points with bars stand beside those of other lines, or their bars would hide each other.
        aside = min(5.0, 60 / len(self.lines)) * (number - (len(self.lines) - 1) / 2) if line.spread else 0.0
        places = [(self.across.pixel(x) + aside, self.up.pixel(y)) for x, y in line.points]
        parts = [f'<g class="hue{number % len(_LIGHT)}" stroke="currentColor" fill="none">']
        if line.band:
            parts += self._area(line)
        for (x, _), spread in zip(places, line.spread, strict=False):
            if spread is not None:
                low, high = (self.up.pixel(bound) for bound in spread)
                parts.append(f'<path class="spread" opacity=".55" d="M{x:.1f} {low:.1f}V{high:.1f}"/>')
        if len(places) > 1:
            course = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
            parts.append(f'<path class="course" stroke-width="2" {_dash(number)}d="M{course}"/>')
        if len(places) <= _MOST_MARKS:
            for place, (x, y) in zip(places, line.points, strict=True):
                at = f'cx="{place[0]:.1f}" cy="{place[1]:.1f}"'
                parts.append(
                    f'<circle {at} r="3.2" fill="currentColor"><title>{_text(line.name)}: {self._x_label(x)}, {y:.4g}'
                    "</title></circle>"
                )
        return [*parts, "</g>"]

    def _x_label(self, value: Number) -> str:
        return next((_text(label) for at, label in self.across.ticks if at == value), f"{value:.4g}")

    def _legend(self) -> list[str]:
        rows = []
        for number, line in enumerate(self.lines):
            name = line.name if line.points else f"{line.name} (no points)"
            shown = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
            look = f'class="hue{number % len(_LIGHT)}" stroke="currentColor" stroke-width="2" {_dash(number)}'
            rows.append((look, shown))
        rows += [(f"{_LEVEL} ", level.name) for level in self.levels]
        parts = []
        for number, (look, name) in enumerate(rows):
            y = _HEIGHT + _AXIS + _LEGEND_ROW * (number + 0.5)
            parts += [f'<path {look}d="M0 {y - 4:.1f}h26"/>', f'<text x="34" y="{y:.1f}">{_text(name)}</text>']
        return parts


def _dash(number: int) -> str:
    pattern = _DASHES[number // len(_LIGHT) % len(_DASHES)]
    return f'stroke-dasharray="{pattern}" ' if pattern else ""


def _text(text: str) -> str:
    return escape(readable(text))
