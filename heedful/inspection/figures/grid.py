"""One number for each head of a model, as coloured squares: a row for each layer, a column for each head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heedful.attention.probe import Role
from heedful.errors import DataError
from heedful.inspection.figures.sheet import Box, faint, sheet, stacked, words
from heedful.inspection.heatmap import INK, Ramp

_CELL, _LEFT, _TOP = 46.0, 62.0, 34.0


@dataclass(frozen=True)
class Rated:
    """A head and its number."""

    role: Role
    layer: int
    head: int
    value: float


def heads_grid(rated: Sequence[Rated], *, title: str, digits: int = 2, ramp: Ramp = INK) -> str:
    """The picture as SVG; the largest value has the last colour of the ramp, 0 and everything below it the first.

    Args:
        rated: the heads.
        title: a heading that says what the numbers are.
        digits: behind the point.
        ramp: the colours.

    Raises:
        DataError: no heads.
    """
    if not rated:
        raise DataError("no heads to draw")
    largest = max(each.value for each in rated)
    roles = dict.fromkeys(each.role for each in rated)
    boxes = [_role([each for each in rated if each.role == role], largest, digits, ramp) for role in roles]
    return sheet(stacked(boxes), title=title)


def _role(rated: Sequence[Rated], largest: float, digits: int, ramp: Ramp) -> Box:
    heads = sorted({each.head for each in rated})
    layers = sorted({each.layer for each in rated})
    parts = [words(rated[0].role, 0, 10, extra='font-weight="600"'), faint("head", _LEFT - 14, _TOP - 6, anchor="end")]
    parts += [faint(str(head), _LEFT + _CELL * (heads.index(head) + 0.5), _TOP - 6, anchor="middle") for head in heads]
    parts += [
        faint(f"layer {layer}", _LEFT - 14, _TOP + _CELL * (row + 0.5) + 4, anchor="end")
        for row, layer in enumerate(layers)
    ]
    for each in rated:
        x, y = _LEFT + _CELL * heads.index(each.head), _TOP + _CELL * layers.index(each.layer)
        share = max(0.0, each.value / largest) if largest > 0 else 0.0
        ink = "#ffffff" if share > 0.5 else "#24262d"
        parts += [
            f'<rect x="{x + 1:.1f}" y="{y + 1:.1f}" width="{_CELL - 2:.1f}" height="{_CELL - 2:.1f}" rx="4" '
            f'fill="{ramp.colour(share)}"/>',
            f'<text x="{x + _CELL / 2:.1f}" y="{y + _CELL / 2 + 4:.1f}" font-size="12" text-anchor="middle" '
            f'style="fill:{ink}">{each.value + 0.0:.{digits}f}</text>',
        ]
    return Box(tuple(parts), max(_LEFT + _CELL * len(heads), 200.0), _TOP + _CELL * len(layers))
