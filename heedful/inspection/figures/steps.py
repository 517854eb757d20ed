"""Helpers of figures that show where steps attend: choice of the map, step names, and a table of weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.inspection.figures.sheet import MapSelection, SvgBox, draw_note, draw_text, estimate_length
from heedful.inspection.record import AttentionMap, InspectionRecord
from heedful.inspection.token_labels import escape_svg_label, make_visible

_ROW, _CELL = 24.0, 58.0
_LONGEST = 64
_TILT = 40.0


def find_map(
    record: InspectionRecord, selection: MapSelection, fits: Callable[[AttentionMap], bool], *, description: str
) -> AttentionMap:
    """Return the selected map that satisfies `fits`; the last one unless a layer is given, cross-attention first.

    `description` names what is looked for, in the error message.

    Raises:
        DataError: there is no such map.
    """
    candidates = [
        attention_map
        for attention_map in record.maps
        if fits(attention_map) and attention_map.weights.size and selection.role in (None, attention_map.role)
    ]
    selected = [attention_map for attention_map in candidates if selection.layer in (-1, attention_map.layer)]
    if not selected:
        hint = (
            f"; layers {', '.join(str(attention_map.layer) for attention_map in candidates)} have it"
            if candidates
            else ""
        )
        raise DataError(f"no attention to {description} in this record{hint}")
    return next((attention_map for attention_map in reversed(selected) if attention_map.role == "cross"), selected[-1])


def name_steps(record: InspectionRecord, attention_map: AttentionMap) -> list[str]:
    """Return the names of a map's queries; generated tokens with their probability, such as A(1.00)."""
    tokens = record.get_axis(attention_map.queries).tokens
    if attention_map.queries != "written" or len(record.written) != len(tokens):
        return list(tokens)
    probabilities = [math.exp(token_record.log_probability) for token_record in record.written]
    return [f"{token}({probability:.2f})" for token, probability in zip(tokens, probabilities, strict=True)]


def draw_weight_table(
    texts: Sequence[str],
    steps: Sequence[str],
    weights: Float[np.ndarray, "S T"],
    *,
    marked: Sequence[int] = (),
    selection: MapSelection,
) -> SvgBox:
    """Draw texts below each other with a shaded column of weights for each step; a dot marks texts known to matter."""
    names = [f"● {text}" if index in marked else text for index, text in enumerate(texts)]
    left = max(estimate_length(name, longest=_LONGEST) for name in names) + 12
    reach = max(estimate_length(step) for step in steps)
    tilted = reach > _CELL - 6
    top = math.sin(math.radians(_TILT)) * reach + 16 if tilted else 20.0
    parts = [draw_text(name, left - 8, top + _ROW * (row + 0.68), anchor="end", longest=_LONGEST)
             for row, name in enumerate(names)]  # fmt: skip
    largest = float(weights.max()) or 1.0
    for column, step in enumerate(steps):
        x = left + _CELL * column
        turn = f' rotate(-{_TILT:.0f})" text-anchor="start' if tilted else '" text-anchor="middle'
        parts.append(
            f'<text transform="translate({x + _CELL / 2:.1f} '
            f'{top - 7:.1f}){turn}">{escape_svg_label(make_visible(step))}</text>'
        )
        for row, weight in enumerate(weights[column].tolist()):
            fraction = weight / largest
            ink = (
                "#000"
                if selection.ramp.lightness[0]
                + fraction * np.ptp(selection.ramp.lightness) * _get_lightness_direction(selection)
                > 0.6
                else "#fff"
            )
            y = top + _ROW * row
            parts += [
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{_CELL - 1:.1f}" height="{_ROW - 1:.1f}" '
                f'fill="{selection.ramp.get_colour(fraction)}"/>',
                f'<text x="{x + _CELL / 2:.1f}" y="{y + 16:.1f}" font-size="11" text-anchor="middle" '
                f'style="fill:{ink}">{weight:.3f}</text>',
            ]
    below = top + _ROW * len(texts) + 18
    note = [draw_note("● is known to matter", 0, below)] if marked else []
    overhang = math.cos(math.radians(_TILT)) * reach if tilted else 0.0
    width = max(left + _CELL * len(steps) + overhang, 150.0)
    return SvgBox((*parts, *note), width, below + 6)


def _get_lightness_direction(selection: MapSelection) -> int:
    """Return 1 if strong weights are light, -1 if they are dark."""
    low, high = selection.ramp.lightness
    return 1 if high > low else -1
