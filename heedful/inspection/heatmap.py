"""Alignment matrices as heat maps: self-contained SVG, or text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from jaxtyping import Num, UInt8

from heedful.inspection.svg import (
    SvgStyle,
    draw_image,
    escape_svg_label,
    make_visible,
    measure_columns,
    shorten_text,
    split_graphemes,
)

Weights = Num[np.ndarray, "..."] | Sequence[Sequence[float]]


@dataclass(frozen=True)
class ColourRamp:
    """A colour ramp from weight 0 to weight 1 whose lightness changes in perceptually equal steps.

    Attributes:
        lightness: OKLab lightness of weight 0 and of weight 1, from 0 (black) to 1 (white).
        tints: OKLab (a, b) at equal distances along the ramp, interpolated linearly.
    """

    lightness: tuple[float, float]
    tints: tuple[tuple[float, float], ...]

    def get_colour(self, weight: float) -> str:
        """Return the colour of a weight in [0, 1] as #rrggbb."""
        low, high = self.lightness
        position = weight * (len(self.tints) - 1)
        left = min(int(position), len(self.tints) - 2)
        share = position - left
        a, b = (x + share * (y - x) for x, y in zip(self.tints[left], self.tints[left + 1], strict=True))
        return _oklab_to_hex(low + weight * (high - low), a, b)


GLOW = ColourRamp(
    (0.20, 0.97), ((0.005, -0.055), (0.075, -0.14), (0.18, -0.05), (0.15, 0.085), (0.03, 0.145), (-0.01, 0.05))
)
"""Dark to light, strong weights shine: the decks' black and white matrices, in colour."""

INK = ColourRamp((0.985, 0.28), ((-0.002, 0.002), (-0.02, -0.035), (-0.015, -0.085), (0.01, -0.11), (0.015, -0.08)))
"""Light to dark, strong weights are darkest: for print."""


def map_colours(weights: Num[np.ndarray, "H W"], ramp: ColourRamp) -> UInt8[np.ndarray, "H W 3"]:
    """Return the RGB values of weights in [0, 1], quantised to 256 steps."""
    table = np.array([list(bytes.fromhex(ramp.get_colour(i / 255)[1:])) for i in range(256)], np.uint8)
    pixels: np.ndarray = table[np.rint(255 * np.clip(weights, 0, 1)).astype(int)]
    return pixels


def _oklab_to_hex(lightness: float, a: float, b: float) -> str:
    """Convert an OKLab colour (lightness, a, b; Ottosson 2020) to sRGB as #rrggbb, clipped to the displayable range."""
    l_ = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m_ = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s_ = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * l_ - 3.3077115913 * m_ + 0.2309699292 * s_,
        -1.2684380046 * l_ + 2.6097574011 * m_ - 0.3413193965 * s_,
        -0.0041960863 * l_ - 0.7034186147 * m_ + 1.7076147010 * s_,
    )
    shown = (12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in (max(0.0, c) for c in linear))
    return "#" + "".join(f"{round(255 * min(1.0, c)):02x}" for c in shown)


def draw_alignment_svg(
    source: Sequence[str],
    target: Sequence[str],
    weights: Weights,
    *,
    title: str = "",
    ramp: ColourRamp = GLOW,
    axes: tuple[str, str] = ("source", "target"),
    splits: Sequence[int] = (),
    highest: float = 1.0,
) -> str:
    """Draw an alignment matrix as SVG: a row per target token, a column per source token, a tooltip in each cell. Lines
    are drawn before the columns `splits`; `highest` is the weight of the last colour.

    The largest weight of each row has a dot, unless all weights of the row are equal. Text follows light and dark mode;
    nothing is loaded from anywhere. More than 20,000 cells are drawn as one image, without tooltips and dots.

    Args:
        source: S tokens.
        target: T tokens.
        weights: [T, S] in [0, 1], as an array or nested lists.
        title: heading.
        ramp: the colours: `GLOW`, `INK` or your own.
        axes: names of columns and rows.
        splits: columns before which another kind of column begins.
        highest: the weight of the ramp's last colour; larger ones get it too.

    Raises:
        ValueError: there are no tokens, weights are not [T, S], or are outside [0, 1].
    """
    matrix = _check_weights(source, target, weights)
    tokens = [make_visible(t) for t in source], [make_visible(t) for t in target]
    names = make_visible(axes[0]), make_visible(axes[1])
    return _AlignmentPicture(
        *tokens, matrix, make_visible(title) if title else "", ramp, names, splits, highest
    ).render()


_LONGEST_LABEL = 24
_TILT = 50.0
_MAX_CELLS = 20_000
_ALIGNMENT_STYLE = SvgStyle("heedful-alignment", faint_colours=("#7b8190", "#8d93a3"))


@dataclass(frozen=True)
class _AlignmentPicture:
    """Content and layout of an alignment heat map; lengths in pixels from the upper left corner of the matrix."""

    source: list[str]
    target: list[str]
    weights: Num[np.ndarray, "T S"]
    title: str
    ramp: ColourRamp
    axes: tuple[str, str]
    splits: Sequence[int]
    highest: float

    def _get_colour(self, weight: float) -> str:
        return self.ramp.get_colour(min(1.0, weight / self.highest))

    @property
    def cell_size(self) -> float:
        """Side of a cell; cells shrink so that a hundred tokens still fit on a screen."""
        return float(np.clip(840 / max(len(self.source), len(self.target)), 11, 34))

    @property
    def font_size(self) -> float:
        """Font size of the labels."""
        return min(14.0, 0.72 * self.cell_size)

    @property
    def half_gap(self) -> float:
        """Half the distance between two squares."""
        return 1.0 if self.cell_size > 16 else 0.5

    @property
    def matrix_size(self) -> tuple[float, float]:
        """Width and height of the matrix."""
        return self.cell_size * len(self.source), self.cell_size * len(self.target)

    @property
    def margins(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom margins for the labels, the title and the scale."""
        rows, columns = ([self._estimate_length(label) for label in labels] for labels in (self.target, self.source))
        reach = math.cos(math.radians(_TILT))
        right = (
            max(self.cell_size * (i + 0.5) + reach * length for i, length in enumerate(columns)) - self.matrix_size[0]
        )
        heading = 0.62 * 17 * measure_columns(self.title) - self.matrix_size[0]
        top = math.sin(math.radians(_TILT)) * max(columns) + 1.2 * self.font_size + (34 if self.title else 0) + 14
        axes = 0.62 * 11 * (max(map(measure_columns, self.axes)) + 2) + 10
        return max(*rows, axes, 70.0) + 16, top, max(right, heading, 200 - self.matrix_size[0], 0.0) + 20, 62.0

    def _estimate_length(self, label: str) -> float:
        """Return the estimated length of a label."""
        return 0.62 * self.font_size * min(measure_columns(label), _LONGEST_LABEL + 1) + 10

    def render(self) -> str:
        """Return the heat map as an SVG file."""
        left, top, right, bottom = self.margins
        (width, height), heading = self.matrix_size, escape(self.title)
        above = [f'<text x="0" y="{28 - top:.0f}" font-size="17" font-weight="600">{heading}</text>'] if heading else []
        return _ALIGNMENT_STYLE.render_svg(
            [*above, *self._draw_labels(), *self._draw_cells(), *self._draw_splits(), *self._draw_scale()],
            name=heading or "Alignment",
            box=(-left, -top, left + width + right, top + height + bottom),
            font=f"{self.font_size:.1f}",
        )

    def _draw_labels(self) -> list[str]:
        """Draw the token labels and axis names."""
        columns = [
            f'<text transform="translate({self.cell_size * (i + 0.5) + 0.25 * self.font_size:.1f} -7) '
            f'rotate(-{_TILT:.0f})">'
            f"{escape_svg_label(token)}</text>"
            for i, token in enumerate(self.source)
        ]
        rows = [
            f'<text x="-8" y="{self.cell_size * (i + 0.5):.1f}" dy=".34em" '
            f'text-anchor="end">{escape_svg_label(token)}</text>'
            for i, token in enumerate(self.target)
        ]
        axes = [
            f'<text class="faint" x="-8" y="{y}" font-size="11" text-anchor="end">{name}</text>'
            for y, name in ((-24, f"{escape(self.axes[0])} →"), (-9, f"{escape(self.axes[1])} ↓"))
        ]
        return [*axes, *columns, *rows]

    def _draw_cells(self) -> list[str]:
        """Draw a panel in the colour of 0 with a rounded square for each weight."""
        width, height = self.matrix_size
        cell, gap = self.cell_size, self.half_gap
        side, radius = cell - 2 * gap, min(4.0, cell / 9)
        lines = [
            f'<rect x="-3" y="-3" width="{width + 6:.1f}" height="{height + 6:.1f}" rx="{radius + 3:.1f}" '
            f'fill="{self.ramp.get_colour(0.0)}"/>'
        ]
        if self.weights.size > _MAX_CELLS:
            return [*lines, draw_image(map_colours(self.weights / self.highest, self.ramp), width=width, height=height)]
        for token, row, y in zip(self.target, self.weights, cell * np.arange(len(self.target)), strict=True):
            lines.append(f'<g transform="translate(0 {y + gap:.1f})">')
            for i, weight in enumerate(row.tolist()):
                words = f"{escape(self.source[i])} → {escape(token)}: {weight:.3f}"
                lines.append(
                    f'<rect x="{cell * i + gap:.1f}" width="{side:.1f}" height="{side:.1f}" rx="{radius:.1f}" '
                    f'fill="{self._get_colour(weight)}"><title>{words}</title></rect>'
                )
            lines.extend(self._draw_dots(row))
            lines.append("</g>")
        return lines

    def _draw_splits(self) -> list[str]:
        """Draw a dashed vertical line at each column in `splits`, where columns of another kind begin; return SVG
        paths.
        """
        return [
            f'<path stroke="{self.ramp.get_colour(1.0)}" stroke-dasharray="4 3" pointer-events="none" '
            f'd="M{self.cell_size * column:.1f} -3V{self.matrix_size[1] + 3:.1f}"/>'
            for column in self.splits
        ]

    def _draw_dots(self, row: Num[np.ndarray, " S"]) -> list[str]:
        """Draw a dot on the largest weight of a row, in the contrasting end of the ramp."""
        if len(row) > 1 and row.max() == row.min():
            return []
        colour = self.ramp.get_colour(0.0 if row.max() > self.highest / 2 else 1.0)
        return [
            f'<circle cx="{self.cell_size * (i + 0.5):.1f}" cy="{self.cell_size / 2 - self.half_gap:.1f}" '
            f'r="{self.cell_size / 13:.1f}" '
            f'fill="{colour}" fill-opacity="0.7" pointer-events="none"/>'
            for i in np.flatnonzero(row == row.max())
        ]

    def _draw_scale(self) -> list[str]:
        """Draw the colour scale below the matrix."""
        _, height = self.matrix_size
        y, steps, step = height + 22, 72, 2
        bar = [
            f'<rect x="{step * i}" y="{y:.1f}" width="{step}" height="9" shape-rendering="crispEdges" '
            f'fill="{self.ramp.get_colour((i + 0.5) / steps)}"/>'
            for i in range(steps)
        ]
        ticks = [
            f'<text class="faint" x="{steps * step * fraction:.0f}" y="{y + 22:.1f}" font-size="11" '
            f'text-anchor="{anchor}">{fraction * self.highest:g}</text>'
            for fraction, anchor in ((0, "start"), (0.5, "middle"), (1, "end"))
        ]
        name = f'<text class="faint" x="{steps * step + 10}" y="{y + 8:.1f}" font-size="11">weight</text>'
        return [*bar, *ticks, name]


def draw_alignment_text(source: Sequence[str], target: Sequence[str], weights: Weights) -> str:
    """Draw an alignment matrix in block characters: a row per target token, a column per source token, and behind each
    row its strongest source token and the weight.

    Source tokens are written downwards. Arguments and errors are those of `draw_alignment_svg`.
    """
    matrix = _check_weights(source, target, weights)
    columns, rows = ([shorten_text(make_visible(t), 14) for t in tokens] for tokens in (source, target))
    margin = max(map(measure_columns, rows))
    lines = [" " * (margin + 2) + line for line in _write_downwards(columns)]
    for label, row in zip(rows, matrix, strict=True):
        shades = "".join(" ░▒▓█"[round(4 * float(weight))] * 2 for weight in row)
        best = int(row.argmax())
        lines.append(f"{' ' * (margin - measure_columns(label))}{label} │{shades}│ {columns[best]} {row[best]:.2f}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _write_downwards(labels: Sequence[str]) -> list[str]:
    """Return the lines of text in which each label is a column of letters, two characters wide, that ends on the last
    line.
    """
    letters = [split_graphemes(label) for label in labels]
    depth = max(map(len, letters))
    columns = [
        ["  "] * (depth - len(graphemes)) + [letter + " " * (2 - measure_columns(letter)) for letter in graphemes]
        for graphemes in letters
    ]
    return ["".join(line) for line in zip(*columns, strict=True)]


def _check_weights(source: Sequence[str], target: Sequence[str], weights: Weights) -> Num[np.ndarray, "T S"]:
    """Return the weights of source tokens (columns) for target tokens (rows) as an array [T, S]; `ValueError` if their
    shape is another or a weight is outside [0, 1].
    """
    expected_shape = (len(target), len(source))
    if not all(expected_shape):
        raise ValueError(
            f"an alignment of {len(source)} source and {len(target)} target tokens: there must be some of both"
        )
    try:
        matrix = np.asarray(weights, dtype=np.float64)
    except ValueError as error:
        raise ValueError(
            f"weights in rows of unequal length: they must be {expected_shape} (target, source)"
        ) from error
    if matrix.shape != expected_shape:
        raise ValueError(f"weights of shape {matrix.shape}: they must be {expected_shape} (target, source)")
    is_invalid = ~((matrix >= 0) & (matrix <= 1))
    if is_invalid.any():
        row, column = (int(i) for i in np.argwhere(is_invalid)[0])
        raise ValueError(
            f"weight {matrix[row, column]} at row {row}, column {column} of {matrix.shape}: weights lie in [0, 1]"
        )
    return matrix
