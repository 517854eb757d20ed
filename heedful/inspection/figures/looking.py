"""What figures share that show where steps look: which map, what steps are called, and a table of weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.inspection.figures.sheet import Box, Chosen, faint, length, words
from heedful.inspection.lettering import svg_label, visible
from heedful.inspection.record import Map, Record

_ROW, _CELL = 24.0, 58.0
_LONGEST = 64
_TILT = 40.0


def fitting(record: Record, chosen: Chosen, fits: Callable[[Map], bool], *, what: str) -> Map:
    """The chosen one of the maps that fit; the last unless a layer is given, of those to a memory before others.

    Raises:
        DataError: there is none.
    """
    fit = [each for each in record.maps if fits(each) and each.weights.size and chosen.role in (None, each.role)]
    found = [each for each in fit if chosen.layer in (-1, each.layer)]
    if not found:
        there = f"; layers {', '.join(str(each.layer) for each in fit)} have it" if fit else ""
        raise DataError(f"no attention to {what} in this record{there}")
    return next((each for each in reversed(found) if each.role == "cross"), found[-1])


def step_names(record: Record, each: Map) -> list[str]:
    """What the queries of a map are called: words with their probability, such as A(1.00), where they were written."""
    tokens = record.axis(each.queries).tokens
    if each.queries != "written" or len(record.written) != len(tokens):
        return list(tokens)
    chances = [math.exp(written.log_probability) for written in record.written]
    return [f"{token}({chance:.2f})" for token, chance in zip(tokens, chances, strict=True)]


def weight_table(
    texts: Sequence[str],
    steps: Sequence[str],
    weights: Float[np.ndarray, "S T"],
    *,
    marked: Sequence[int] = (),
    chosen: Chosen,
) -> Box:
    """Texts below each other with a column of weights for each step, shaded; what is known to matter has a dot."""
    names = [f"● {text}" if place in marked else text for place, text in enumerate(texts)]
    left = max(length(name, longest=_LONGEST) for name in names) + 12
    reach = max(length(step) for step in steps)
    tilted = reach > _CELL - 6
    top = math.sin(math.radians(_TILT)) * reach + 16 if tilted else 20.0
    parts = [words(name, left - 8, top + _ROW * (row + 0.68), anchor="end", longest=_LONGEST)
             for row, name in enumerate(names)]  # fmt: skip
    most = float(weights.max()) or 1.0
    for column, step in enumerate(steps):
        x = left + _CELL * column
        turn = f' rotate(-{_TILT:.0f})" text-anchor="start' if tilted else '" text-anchor="middle'
        parts.append(
            f'<text transform="translate({x + _CELL / 2:.1f} {top - 7:.1f}){turn}">{svg_label(visible(step))}</text>'
        )
        for row, weight in enumerate(weights[column].tolist()):
            share = weight / most
            ink = (
                "#000"
                if chosen.ramp.lightness[0] + share * np.ptp(chosen.ramp.lightness) * _up(chosen) > 0.6
                else "#fff"
            )
            y = top + _ROW * row
            parts += [
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{_CELL - 1:.1f}" height="{_ROW - 1:.1f}" '
                f'fill="{chosen.ramp.colour(share)}"/>',
                f'<text x="{x + _CELL / 2:.1f}" y="{y + 16:.1f}" font-size="11" text-anchor="middle" '
                f'style="fill:{ink}">{weight:.3f}</text>',
            ]
    below = top + _ROW * len(texts) + 18
    note = [faint("● is known to matter", 0, below)] if marked else []
    beyond = math.cos(math.radians(_TILT)) * reach if tilted else 0.0
    width = max(left + _CELL * len(steps) + beyond, 150.0)
    return Box((*parts, *note), width, below + 6)


def _up(chosen: Chosen) -> int:
    """1 where strong weights are light, -1 where they are dark."""
    low, high = chosen.ramp.lightness
    return 1 if high > low else -1
