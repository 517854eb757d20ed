"""What all figures are given and what they are drawn on: the attention that is meant, and a sheet with boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from jaxtyping import Float

from heedful.attention.probe import Role
from heedful.errors import DataError
from heedful.inspection.heatmap import GLOW, Ramp
from heedful.inspection.lettering import svg_label, text_width, visible
from heedful.inspection.plots import PLOT
from heedful.inspection.record import Map, Record
from heedful.inspection.scales import Number

HUES = 8
"""How many colours of class `hue0`, `hue1` ... there are."""

_ROLES: tuple[Role, ...] = ("cross", "summary", "decoder", "encoder")

_EDGE = 24.0
_HEADING = 56.0
_TILT = 50.0


@dataclass(frozen=True)
class Chosen:
    """What to look at.

    Attributes:
        role: who looks at whom; None for the first of cross, summary, decoder and encoder that there is.
        layer: its number; -1 is the last.
        head: its number; None for all of them, or their mean.
        ramp: the colours of weights.
        smooth: whether the weights of regions are spread around their centres.
    """

    role: Role | None = None
    layer: int = -1
    head: int | None = None
    ramp: Ramp = GLOW
    smooth: bool = True

    def map_of(self, record: Record) -> Map:
        """The map of this role and layer.

        Raises:
            DataError: there is none, or none of its heads is in the record.
        """
        roles = {each.role for each in record.maps}
        there: list[Role] = [role for role in _ROLES if role in roles]
        role = self.role or (there[0] if there else "cross")
        found = record.find(role, layer=self.layer)
        if not found.weights.size:
            raise DataError(f"{found.name}: this record has none of its weights; inspect with other --heads")
        return found

    def weights_of(self, each: Map) -> Float[np.ndarray, "Q K"]:
        """The weights of the head, or the mean over heads, cut to [0, 1]."""
        weights = each.mean if self.head is None else each.head(self.head)
        cut: np.ndarray = np.clip(weights, 0, 1)
        return cut

    def name_of(self, each: Map) -> str:
        """A heading for these weights."""
        if self.head is not None:
            name = f"{each.name}, head {self.head}"
        elif len(each.heads) == 1:
            name = each.name
        else:
            name = f"{each.name}, mean of {len(each.heads)} heads"
        beyond = bool(each.weights.size) and (each.weights.min() < -1e-3 or each.weights.max() > 1 + 1e-3)
        return f"{name} (weights below 0 or above 1 are drawn as 0 and 1)" if beyond else name


@dataclass(frozen=True)
class Box:
    """Elements and how much room they take, to the right of and below (0, 0).

    Attributes:
        parts: elements of SVG.
        width: in pixels.
        height: likewise.
    """

    parts: tuple[str, ...]
    width: Number
    height: Number


def sheet(box: Box, *, title: str) -> str:
    """The file: a heading and what is in the box below it."""
    name = escape(visible(title))
    heading = f'<text x="0" y="{26 - _HEADING:.0f}" font-size="15" font-weight="600">{name}</text>'
    width, height = max(box.width, length(title, 15)) + 2 * _EDGE, box.height + _HEADING + _EDGE
    return PLOT.file([heading, *box.parts], name=name, box=(-_EDGE, -_HEADING, width, height), font=13)


def length(text: str, font: Number = 13, *, longest: int = 24) -> float:
    """About how long a text is in pixels, cut at so many columns."""
    return 0.62 * font * min(text_width(visible(text)), longest + 1)


def words(  # a place and a text, as everywhere
    text: str, x: Number, y: Number, *, font: Number = 13, anchor: str = "start", extra: str = "", longest: int = 24
) -> str:
    """A text, made visible, cut and escaped."""
    size = "" if font == 13 else f' font-size="{font:g}"'
    side = "" if anchor == "start" else f' text-anchor="{anchor}"'
    more = f" {extra}" if extra else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{size}{side}{more}>{svg_label(visible(text), longest=longest)}</text>'


def faint(text: str, x: Number, y: Number, *, anchor: str = "start") -> str:
    """A note in small faint letters, whole however long it is."""
    return words(text, x, y, font=11, anchor=anchor, extra='class="faint"', longest=10_000)


def bold(text: str, x: Number, y: Number, *, anchor: str = "start", longest: int = 24) -> str:
    """A text, as `words` writes it, in bold letters."""
    return words(text, x, y, anchor=anchor, extra='font-weight="600"', longest=longest)


def heading(name: str, notes: Sequence[str] = (), *, width: Number, longest: int = 24) -> Box:
    """What a part of a figure is called, and notes below it."""
    below = [faint(note, 0, 28 + 16 * line) for line, note in enumerate(notes)]
    return Box((bold(name, 0, 10, longest=longest), *below), width, 16 * (1 + len(notes)))


def moved(box: Box, *, x: Number = 0, y: Number = 0) -> str:
    """The elements of a box at another place."""
    return "\n".join([f'<g transform="translate({x:.1f} {y:.1f})">', *box.parts, "</g>"])


def stacked(boxes: Sequence[Box], *, gap: Number = 30) -> Box:
    """Boxes below each other."""
    parts, y = [], 0.0
    for box in boxes:
        parts.append(moved(box, y=y))
        y += box.height + gap
    return Box(tuple(parts), max((box.width for box in boxes), default=0), max(0.0, y - gap))


def beside(boxes: Sequence[Box], *, gap: Number = 36) -> Box:
    """Boxes next to each other."""
    parts, x = [], 0.0
    for box in boxes:
        parts.append(moved(box, x=x))
        x += box.width + gap
    return Box(tuple(parts), max(0.0, x - gap), max((box.height for box in boxes), default=0))


def labelled(panel: Sequence[str], rows: Sequence[str], columns: Sequence[str], *, cell: Number) -> Box:
    """A grid of square cells with its tokens: rows to the left, columns above; none where they would not fit."""
    font = min(13.0, 0.78 * cell)
    shown = font >= 7
    left = max(length(token, font) for token in rows) + 10 if shown else 0.0
    reach = max(length(token, font) for token in columns) if shown else 0.0
    top = math.sin(math.radians(_TILT)) * reach + (font + 8 if shown else 0.0)
    width, height = cell * len(columns), cell * len(rows)
    parts = [f'<g transform="translate({left:.1f} {top:.1f})">', *panel]
    if shown:
        parts += [words(token, -8, cell * (i + 0.5) + 0.34 * font, font=font, anchor="end")
                  for i, token in enumerate(rows)]  # fmt: skip
        parts += [
            f'<text transform="translate({cell * (i + 0.5) + 0.25 * font:.1f} -7) rotate(-{_TILT:.0f})" '
            f'font-size="{font:g}">{svg_label(visible(token))}</text>'
            for i, token in enumerate(columns)
        ]
    beyond = math.cos(math.radians(_TILT)) * reach
    return Box((*parts, "</g>"), left + width + beyond, top + height)
