"""Common parts of all figures: the selected map, and SVG boxes with their layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from jaxtyping import Float

from heedful.attention.hooks import AttentionKind
from heedful.errors import DataError
from heedful.inspection.heatmap import GLOW, ColourRamp
from heedful.inspection.plots import PLOT_STYLE
from heedful.inspection.record import AttentionMap, InspectionRecord
from heedful.inspection.svg import Number, escape_svg_label, make_visible, measure_columns

NUM_HUES = 8
"""How many colours of class `hue0`, `hue1` ... there are."""

_ROLE_ORDER: tuple[AttentionKind, ...] = ("cross", "summary", "decoder", "encoder")

_MARGIN = 24.0
_HEADING_HEIGHT = 56.0
_TILT = 50.0


@dataclass(frozen=True)
class MapSelection:
    """Which attention map and head a figure shows, and in which colours.

    Attributes:
        role: of the attention; None for the first of cross, summary, decoder and encoder in the record.
        layer: its number; -1 is the last.
        head: its number; None for all heads, or their mean.
        ramp: the colours of weights.
        smooth: whether the weights of regions are smoothed around their centres.
    """

    role: AttentionKind | None = None
    layer: int = -1
    head: int | None = None
    ramp: ColourRamp = GLOW
    smooth: bool = True

    def select_map(self, record: InspectionRecord) -> AttentionMap:
        """Return the selected map of a record; without a role, of the first role that it has among cross, summary,
        decoder and encoder.

        Raises:
            DataError: there is no such map, or none of its heads is in the record.
        """
        roles = {attention_map.role for attention_map in record.maps}
        available: list[AttentionKind] = [role for role in _ROLE_ORDER if role in roles]
        role = self.role or (available[0] if available else "cross")
        selected = record.find_map(role, layer=self.layer)
        if not selected.weights.size:
            raise DataError(f"{selected.name}: this record does not contain its weights; inspect with other --heads")
        return selected

    def select_weights(self, attention_map: AttentionMap) -> Float[np.ndarray, "Q K"]:
        """Return the weights of the selected head, or the mean over heads, clipped to [0, 1]."""
        clipped: np.ndarray = np.clip(attention_map.get_head_weights(self.head), 0, 1)
        return clipped

    def describe_map(self, attention_map: AttentionMap) -> str:
        """Return a heading for the selected weights of a map, such as "cross layer 5, head 2"."""
        if self.head is not None:
            name = f"{attention_map.name}, head {self.head}"
        elif len(attention_map.heads) == 1:
            name = attention_map.name
        else:
            name = f"{attention_map.name}, mean of {len(attention_map.heads)} heads"
        beyond = bool(attention_map.weights.size) and (
            attention_map.weights.min() < -1e-3 or attention_map.weights.max() > 1 + 1e-3
        )
        return f"{name} (weights below 0 or above 1 are drawn as 0 and 1)" if beyond else name


@dataclass(frozen=True)
class SvgBox:
    """SVG elements with the room they take, to the right of and below (0, 0).

    Attributes:
        parts: SVG elements.
        width: in pixels.
        height: in pixels.
    """

    parts: tuple[str, ...]
    width: Number
    height: Number


def render_sheet(box: SvgBox, *, title: str) -> str:
    """Return a complete SVG file with a heading and a box below it."""
    name = escape(make_visible(title))
    heading = f'<text x="0" y="{26 - _HEADING_HEIGHT:.0f}" font-size="15" font-weight="600">{name}</text>'
    width, height = max(box.width, estimate_length(title, 15)) + 2 * _MARGIN, box.height + _HEADING_HEIGHT + _MARGIN
    return PLOT_STYLE.render_svg(
        [heading, *box.parts], name=name, box=(-_MARGIN, -_HEADING_HEIGHT, width, height), font=13
    )


def estimate_length(text: str, font: Number = 13, *, longest: int = 24) -> float:
    """Return the approximate length in pixels of a text with font size `font`, cut to `longest` columns."""
    return 0.62 * font * min(measure_columns(make_visible(text)), longest + 1)


def draw_text(  # a position and a text, as in other functions here
    text: str, x: Number, y: Number, *, font: Number = 13, anchor: str = "start", extra: str = "", longest: int = 24
) -> str:
    """Return an SVG text at (x, y), made visible, cut to `longest` columns and escaped. `anchor` is the SVG text-anchor
    ("start", "middle" or "end"); `extra` is further attributes.
    """
    size = "" if font == 13 else f' font-size="{font:g}"'
    side = "" if anchor == "start" else f' text-anchor="{anchor}"'
    extra_attributes = f" {extra}" if extra else ""
    return (
        f'<text x="{x:.1f}" '
        f'y="{y:.1f}"{size}{side}{extra_attributes}>{escape_svg_label(make_visible(text), longest=longest)}</text>'
    )


def draw_note(text: str, x: Number, y: Number, *, anchor: str = "start") -> str:
    """Return a note in small faint letters, not cut."""
    return draw_text(text, x, y, font=11, anchor=anchor, extra='class="faint"', longest=10_000)


def draw_bold_text(text: str, x: Number, y: Number, *, anchor: str = "start", longest: int = 24) -> str:
    """Return a bold text, as `draw_text` does."""
    return draw_text(text, x, y, anchor=anchor, extra='font-weight="600"', longest=longest)


def draw_heading(name: str, notes: Sequence[str] = (), *, width: Number, longest: int = 24) -> SvgBox:
    """Return a box, `width` pixels wide, with a bold heading cut to `longest` columns, and notes below it."""
    note_elements = [draw_note(note, 0, 28 + 16 * line) for line, note in enumerate(notes)]
    return SvgBox((draw_bold_text(name, 0, 10, longest=longest), *note_elements), width, 16 * (1 + len(notes)))


def translate_box(box: SvgBox, *, x: Number = 0, y: Number = 0) -> str:
    """Return the elements of a box as a translated group."""
    return "\n".join([f'<g transform="translate({x:.1f} {y:.1f})">', *box.parts, "</g>"])


def stack_vertically(boxes: Sequence[SvgBox], *, gap: Number = 30) -> SvgBox:
    """Place boxes below each other, `gap` pixels apart."""
    parts, y = [], 0.0
    for box in boxes:
        parts.append(translate_box(box, y=y))
        y += box.height + gap
    return SvgBox(tuple(parts), max((box.width for box in boxes), default=0), max(0.0, y - gap))


def stack_horizontally(boxes: Sequence[SvgBox], *, gap: Number = 36) -> SvgBox:
    """Place boxes next to each other, `gap` pixels apart."""
    parts, x = [], 0.0
    for box in boxes:
        parts.append(translate_box(box, x=x))
        x += box.width + gap
    return SvgBox(tuple(parts), max(0.0, x - gap), max((box.height for box in boxes), default=0))


def draw_labelled_grid(panel: Sequence[str], rows: Sequence[str], columns: Sequence[str], *, cell: Number) -> SvgBox:
    """Return a grid of square cells, with side `cell`, the row tokens on the left and the column tokens above; without
    tokens if they would not fit. `panel` are the SVG elements that draw the cells.
    """
    font = min(13.0, 0.78 * cell)
    has_labels = font >= 7
    left = max(estimate_length(token, font) for token in rows) + 10 if has_labels else 0.0
    reach = max(estimate_length(token, font) for token in columns) if has_labels else 0.0
    top = math.sin(math.radians(_TILT)) * reach + (font + 8 if has_labels else 0.0)
    width, height = cell * len(columns), cell * len(rows)
    parts = [f'<g transform="translate({left:.1f} {top:.1f})">', *panel]
    if has_labels:
        parts += [draw_text(token, -8, cell * (i + 0.5) + 0.34 * font, font=font, anchor="end")
                  for i, token in enumerate(rows)]  # fmt: skip
        parts += [
            f'<text transform="translate({cell * (i + 0.5) + 0.25 * font:.1f} -7) rotate(-{_TILT:.0f})" '
            f'font-size="{font:g}">{escape_svg_label(make_visible(token))}</text>'
            for i, token in enumerate(columns)
        ]
    overhang = math.cos(math.radians(_TILT)) * reach
    return SvgBox((*parts, "</g>"), left + width + overhang, top + height)
