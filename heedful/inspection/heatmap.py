"""Who looked at whom: an alignment matrix as one self-contained SVG, or as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from jaxtyping import Num, UInt8

from heedful.inspection.lettering import shortened, split_letters, svg_label, text_width, visible
from heedful.inspection.svg import Look, image

Weights = Num[np.ndarray, "..."] | Sequence[Sequence[float]]


@dataclass(frozen=True)
class Ramp:
    """Colours from weight 0 to weight 1 whose lightness grows in equal steps to the eye.

    Attributes:
        lightness: OKLab lightness of weight 0 and of weight 1, 0 (black) to 1 (white).
        tints: OKLab (a, b) at equal distances along the ramp, joined by straight lines.
    """

    lightness: tuple[float, float]
    tints: tuple[tuple[float, float], ...]

    def colour(self, weight: float) -> str:
        """The colour of a weight in [0, 1] as #rrggbb."""
        low, high = self.lightness
        place = weight * (len(self.tints) - 1)
        left = min(int(place), len(self.tints) - 2)
        share = place - left
        a, b = (x + share * (y - x) for x, y in zip(self.tints[left], self.tints[left + 1], strict=True))
        return _hex(low + weight * (high - low), a, b)


GLOW = Ramp((0.20, 0.97), ((0.005, -0.055), (0.075, -0.14), (0.18, -0.05), (0.15, 0.085), (0.03, 0.145), (-0.01, 0.05)))
"""Dark to light, strong weights shine: the decks' black and white matrices, in colour."""

INK = Ramp((0.985, 0.28), ((-0.002, 0.002), (-0.02, -0.035), (-0.015, -0.085), (0.01, -0.11), (0.015, -0.08)))
"""Light to dark, strong weights are darkest: for print."""


def colours(weights: Num[np.ndarray, "H W"], ramp: Ramp) -> UInt8[np.ndarray, "H W 3"]:
    """Red, green and blue of weights in [0, 1], in 256 steps."""
    table = np.array([list(bytes.fromhex(ramp.colour(i / 255)[1:])) for i in range(256)], np.uint8)
    found: np.ndarray = table[np.rint(255 * np.clip(weights, 0, 1)).astype(int)]
    return found


def _hex(lightness: float, a: float, b: float) -> str:
    """sRGB of an OKLab colour (Ottosson 2020), cut to what screens can show."""
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


def alignment_svg(
    source: Sequence[str],
    target: Sequence[str],
    weights: Weights,
    *,
    title: str = "",
    ramp: Ramp = GLOW,
    axes: tuple[str, str] = ("source", "target"),
    splits: Sequence[int] = (),
    highest: float = 1.0,
) -> str:
    """The matrix as an SVG file: a row for each target token, a column for each source token, a tooltip in each cell.

    Each row's largest weight has a dot, unless the whole row is equal. The text follows light and dark mode; nothing
    is loaded from anywhere. More than 20,000 cells are one image, without tooltips and dots.

    Args:
        source: S tokens.
        target: T tokens.
        weights: [T, S] in [0, 1], as an array or nested lists.
        title: a heading.
        ramp: the colours, `GLOW` or `INK` or your own.
        axes: what columns and rows are called.
        splits: numbers of columns before which another kind of column begins.
        highest: the weight of the ramp's last colour; larger ones have it, too.

    Raises:
        ValueError: no tokens, weights that are not [T, S], or weights outside [0, 1].
    """
    matrix = _checked(source, target, weights)
    tokens = [visible(t) for t in source], [visible(t) for t in target]
    names = visible(axes[0]), visible(axes[1])
    return _Picture(*tokens, matrix, visible(title) if title else "", ramp, names, splits, highest).svg()


_LONGEST_LABEL = 24
_TILT = 50.0
_MOST_CELLS = 20_000
_LOOK = Look("heedful-alignment", faint=("#7b8190", "#8d93a3"))


@dataclass(frozen=True)
class _Picture:
    """Where everything lies; lengths in pixels, from the upper left corner of the matrix."""

    source: list[str]
    target: list[str]
    weights: Num[np.ndarray, "T S"]
    title: str
    ramp: Ramp
    axes: tuple[str, str]
    splits: Sequence[int]
    highest: float

    def colour(self, weight: float) -> str:
        return self.ramp.colour(min(1.0, weight / self.highest))

    @property
    def cell(self) -> float:
        """Cells shrink so that a hundred tokens still fit on a screen."""
        return float(np.clip(840 / max(len(self.source), len(self.target)), 11, 34))

    @property
    def font(self) -> float:
        return min(14.0, 0.72 * self.cell)

    @property
    def gap(self) -> float:
        """Half the distance between two squares."""
        return 1.0 if self.cell > 16 else 0.5

    @property
    def size(self) -> tuple[float, float]:
        return self.cell * len(self.source), self.cell * len(self.target)

    @property
    def margins(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom: room for the labels, the title and the scale."""
        rows, columns = ([self._length(label) for label in labels] for labels in (self.target, self.source))
        reach = math.cos(math.radians(_TILT))
        right = max(self.cell * (i + 0.5) + reach * length for i, length in enumerate(columns)) - self.size[0]
        heading = 0.62 * 17 * text_width(self.title) - self.size[0]
        top = math.sin(math.radians(_TILT)) * max(columns) + 1.2 * self.font + (34 if self.title else 0) + 14
        axes = 0.62 * 11 * (max(map(text_width, self.axes)) + 2) + 10
        return max(*rows, axes, 70.0) + 16, top, max(right, heading, 200 - self.size[0], 0.0) + 20, 62.0

    def _length(self, label: str) -> float:
        return 0.62 * self.font * min(text_width(label), _LONGEST_LABEL + 1) + 10

    def svg(self) -> str:
        left, top, right, bottom = self.margins
        (width, height), heading = self.size, escape(self.title)
        above = [f'<text x="0" y="{28 - top:.0f}" font-size="17" font-weight="600">{heading}</text>'] if heading else []
        return _LOOK.file(
            [*above, *self._labels(), *self._cells(), *self._splits(), *self._scale()],
            name=heading or "Alignment",
            box=(-left, -top, left + width + right, top + height + bottom),
            font=f"{self.font:.1f}",
        )

    def _labels(self) -> list[str]:
        columns = [
            f'<text transform="translate({self.cell * (i + 0.5) + 0.25 * self.font:.1f} -7) rotate(-{_TILT:.0f})">'
            f"{svg_label(token)}</text>"
            for i, token in enumerate(self.source)
        ]
        rows = [
            f'<text x="-8" y="{self.cell * (i + 0.5):.1f}" dy=".34em" text-anchor="end">{svg_label(token)}</text>'
            for i, token in enumerate(self.target)
        ]
        axes = [
            f'<text class="faint" x="-8" y="{y}" font-size="11" text-anchor="end">{name}</text>'
            for y, name in ((-24, f"{escape(self.axes[0])} →"), (-9, f"{escape(self.axes[1])} ↓"))
        ]
        return [*axes, *columns, *rows]

    def _cells(self) -> list[str]:
        """A panel in the colour of 0 with a rounded square for each weight: weak ones sink into it."""
        width, height = self.size
        cell, gap = self.cell, self.gap
        side, radius = cell - 2 * gap, min(4.0, cell / 9)
        lines = [
            f'<rect x="-3" y="-3" width="{width + 6:.1f}" height="{height + 6:.1f}" rx="{radius + 3:.1f}" '
            f'fill="{self.ramp.colour(0.0)}"/>'
        ]
        if self.weights.size > _MOST_CELLS:
            return [*lines, image(colours(self.weights / self.highest, self.ramp), width=width, height=height)]
        for token, row, y in zip(self.target, self.weights, cell * np.arange(len(self.target)), strict=True):
            lines.append(f'<g transform="translate(0 {y + gap:.1f})">')
            for i, weight in enumerate(row.tolist()):
                words = f"{escape(self.source[i])} → {escape(token)}: {weight:.3f}"
                lines.append(
                    f'<rect x="{cell * i + gap:.1f}" width="{side:.1f}" height="{side:.1f}" rx="{radius:.1f}" '
                    f'fill="{self.colour(weight)}"><title>{words}</title></rect>'
                )
            lines.extend(self._dots(row))
            lines.append("</g>")
        return lines

    def _splits(self) -> list[str]:
        """Lines where another kind of column begins."""
        return [
            f'<path stroke="{self.ramp.colour(1.0)}" stroke-dasharray="4 3" pointer-events="none" '
            f'd="M{self.cell * column:.1f} -3V{self.size[1] + 3:.1f}"/>'
            for column in self.splits
        ]

    def _dots(self, row: Num[np.ndarray, " S"]) -> list[str]:
        """A dot on the largest weight of the row, in the end of the ramp that stands out from it."""
        if len(row) > 1 and row.max() == row.min():
            return []
        colour = self.ramp.colour(0.0 if row.max() > self.highest / 2 else 1.0)
        return [
            f'<circle cx="{self.cell * (i + 0.5):.1f}" cy="{self.cell / 2 - self.gap:.1f}" r="{self.cell / 13:.1f}" '
            f'fill="{colour}" fill-opacity="0.7" pointer-events="none"/>'
            for i in np.flatnonzero(row == row.max())
        ]

    def _scale(self) -> list[str]:
        """A bar from 0 to 1 below the matrix."""
        _, height = self.size
        y, steps, step = height + 22, 72, 2
        bar = [
            f'<rect x="{step * i}" y="{y:.1f}" width="{step}" height="9" shape-rendering="crispEdges" '
            f'fill="{self.ramp.colour((i + 0.5) / steps)}"/>'
            for i in range(steps)
        ]
        ticks = [
            f'<text class="faint" x="{steps * step * at:.0f}" y="{y + 22:.1f}" font-size="11" '
            f'text-anchor="{anchor}">{at * self.highest:g}</text>'
            for at, anchor in ((0, "start"), (0.5, "middle"), (1, "end"))
        ]
        name = f'<text class="faint" x="{steps * step + 10}" y="{y + 8:.1f}" font-size="11">weight</text>'
        return [*bar, *ticks, name]


def alignment_text(source: Sequence[str], target: Sequence[str], weights: Weights) -> str:
    """The matrix in block characters, source tokens written downwards, each row's strongest token and weight behind it.

    Arguments and errors are those of `alignment_svg`.
    """
    matrix = _checked(source, target, weights)
    columns, rows = ([shortened(visible(t), 14) for t in tokens] for tokens in (source, target))
    margin = max(map(text_width, rows))
    lines = [" " * (margin + 2) + line for line in _downwards(columns)]
    for label, row in zip(rows, matrix, strict=True):
        shades = "".join(" ░▒▓█"[round(4 * float(weight))] * 2 for weight in row)
        best = int(row.argmax())
        lines.append(f"{' ' * (margin - text_width(label))}{label} │{shades}│ {columns[best]} {row[best]:.2f}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _downwards(labels: Sequence[str]) -> list[str]:
    """Labels as columns two characters wide that end on the last line."""
    letters = [split_letters(label) for label in labels]
    depth = max(map(len, letters))
    columns = [
        ["  "] * (depth - len(one)) + [letter + " " * (2 - text_width(letter)) for letter in one] for one in letters
    ]
    return ["".join(line) for line in zip(*columns, strict=True)]


def _checked(source: Sequence[str], target: Sequence[str], weights: Weights) -> Num[np.ndarray, "T S"]:
    """The weights as an array [T, S], or a ValueError that names both shapes."""
    wanted = (len(target), len(source))
    if not all(wanted):
        raise ValueError(
            f"an alignment of {len(source)} source and {len(target)} target tokens: there must be some of both"
        )
    try:
        matrix = np.asarray(weights, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"weights in rows of unequal length: they must be {wanted} (target, source)") from error
    if matrix.shape != wanted:
        raise ValueError(f"weights of shape {matrix.shape}: they must be {wanted} (target, source)")
    wrong = ~((matrix >= 0) & (matrix <= 1))
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            f"weight {matrix[row, column]} at row {row}, column {column} of {matrix.shape}: weights lie in [0, 1]"
        )
    return matrix
