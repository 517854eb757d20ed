"""Pictures of attention to pictures: regions word by word, strips of frames, paths of glimpses."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, UInt8

from heedful.errors import DataError
from heedful.inspection.figures.looking import fitting, step_names
from heedful.inspection.figures.sheet import Box, Chosen, beside, bold, faint, length, moved, sheet, stacked, words
from heedful.inspection.heatmap import colours
from heedful.inspection.record import Axis, Glimpse, Record
from heedful.inspection.scales import Number
from heedful.inspection.svg import photograph

SPREAD = 0.75
"""Of the Gaussian around the centre of a region, in regions."""

_SIDE, _ACROSS, _FINENESS = 176.0, 5, 1.5
_OVER = 0.55
"""How much of a picture the weights cover."""

_STRIP, _ROW, _BAR = 900.0, 34.0, 26.0
_THUMBNAIL, _SPECTROGRAM, _NAMED = 56.0, 80.0, 26.0
_CANVAS = 420.0


def spread(places: int, cells: int) -> Float[np.ndarray, "places cells"]:
    """How much each of many places along a side takes from each cell: a Gaussian of the distance to its centre."""
    here = (np.arange(places) + 0.5) * cells / places
    shares = np.exp(-0.5 * ((here[:, None] - np.arange(cells) - 0.5) / SPREAD) ** 2)
    rows: np.ndarray = shares / shares.sum(1, keepdims=True)
    return rows


def overlap(places: int, cells: int) -> Float[np.ndarray, "places cells"]:
    """Likewise by how much of the place lies in the cell."""
    ends = np.arange(places + 1) * cells / places
    inside = np.minimum(ends[1:, None], np.arange(1, cells + 1)) - np.maximum(ends[:-1, None], np.arange(cells))
    rows: np.ndarray = np.clip(inside, 0, None) * places / cells
    return rows


def looked_at(axis: Axis, cells: Float[np.ndarray, " K"], *, side: float, chosen: Chosen) -> UInt8[np.ndarray, "H W 3"]:
    """The picture of a grid, and half over it the weights of its cells, the largest in the ramp's last colour.

    Args:
        axis: the grid; without a picture the weights stand alone.
        cells: their weights.
        side: the longer one of what comes out, in pixels.
        chosen: colours, and whether cells are spread smoothly.
    """
    assert axis.columns is not None
    rows, columns = len(cells) // axis.columns, axis.columns
    height, width = (rows, columns) if axis.pictures is None else axis.pictures.shape[1:3]
    down, across = (max(1, round(side * length / max(height, width))) for length in (height, width))
    kernel = spread if chosen.smooth else overlap
    weights = kernel(down, rows) @ cells.reshape(rows, columns) @ kernel(across, columns).T
    heat = colours(weights / (float(weights.max()) or 1.0), chosen.ramp)
    if axis.pictures is None:
        return heat
    rows_of_picture = (overlap(down, height) @ axis.pictures[0].reshape(height, -1)).reshape(down, width, 3)
    picture = overlap(across, width) @ rows_of_picture
    mixed: np.ndarray = np.rint(_OVER * heat + (1 - _OVER) * picture).astype(np.uint8)
    return mixed


def regions(record: Record, chosen: Chosen) -> str:
    """A small picture for each step with the attention over it; below each word its probability."""
    each = fitting(record, chosen, lambda each: record.axis(each.keys).kind == "grid", what="a picture")
    axis = record.axis(each.keys)
    boxes = [
        _region(name, looked_at(axis, cells, side=_SIDE * _FINENESS, chosen=chosen))
        for name, cells in zip(step_names(record, each), chosen.weights_of(each), strict=True)
    ]
    lines = [beside(boxes[start : start + _ACROSS], gap=16) for start in range(0, len(boxes), _ACROSS)]
    return sheet(stacked(lines, gap=16), title=chosen.name_of(each))


def _region(name: str, pixels: UInt8[np.ndarray, "H W 3"]) -> Box:
    height, width = (side / _FINENESS for side in pixels.shape[:2])
    wide = max(width, length(name))
    label = words(name, wide / 2, height + 18, anchor="middle")
    return Box((_image(pixels, (wide - width) / 2, 0, width, height), label), wide, height + 24)


def _image(pixels: UInt8[np.ndarray, "H W 3"], x: Number, y: Number, width: Number, height: Number) -> str:
    """A picture, no finer than it needs to be."""
    longest = max(1, round(_FINENESS * max(width, height)))
    return (
        f'<image x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" preserveAspectRatio="none" '
        f'href="{photograph(pixels, longest=longest)}"/>'
    )


def frames(record: Record, chosen: Chosen) -> str:
    """A strip of frames, and below it bars for each step; frames known to matter are marked through all rows."""
    each = fitting(record, chosen, lambda each: record.axis(each.keys).kind == "frames", what="frames")
    axis, names, weights = record.axis(each.keys), step_names(record, each), chosen.weights_of(each)
    left = max(length(name) for name in names) + 12
    wide = min(110.0, _STRIP / len(axis.tokens))
    high, strip = _strip(axis, left, wide)
    top = high + 22
    bottom = top + _ROW * len(names)
    marks = [
        f'<rect class="hue1" fill="currentColor" fill-opacity="0.22" x="{left + wide * place:.1f}" y="0" '
        f'width="{wide:.1f}" height="{bottom:.1f}"><title>known to matter</title></rect>'
        for place in axis.marked
    ]
    stride = max(1, int(np.ceil(_NAMED / wide)))
    numbers = [faint(name, left + wide * (place + 0.5), high + 14, anchor="middle")
               for place, name in enumerate(axis.tokens) if place % stride == 0]  # fmt: skip
    most = float(weights.max()) or 1.0
    rows = [part for place, name in enumerate(names)
            for part in _bars(name, weights[place] / most, (left, top + _ROW * (place + 1) - 4), wide)]  # fmt: skip
    note = f"the highest bar is {most:.3f}" + ("; marked frames are known to matter" if axis.marked else "")
    width = max(left + wide * len(axis.tokens), length(note, 11, longest=100)) + 8
    return sheet(Box((*marks, *strip, *numbers, *rows, faint(note, 0, bottom + 18)), width, bottom + 22),
                 title=chosen.name_of(each))  # fmt: skip


def _strip(axis: Axis, left: float, wide: float) -> tuple[float, list[str]]:
    """How high the pictures are along the top, and these: as many as there is room for, or the one of all frames."""
    if axis.pictures is None:
        return 0.0, []
    count, (pictures, height, width, _) = len(axis.tokens), axis.pictures.shape
    if pictures < count:
        return _SPECTROGRAM, [_image(axis.pictures[0], left, 0, wide * count, _SPECTROGRAM)]
    every = int(np.ceil(_THUMBNAIL / wide))
    high = min(90.0, (every * wide - 2) * height / width)
    shown = range(0, count, every)
    sizes = [min(high * width / height, (count - place) * wide) for place in shown]
    return high, [
        _image(axis.pictures[place], left + place * wide, 0, size, high)
        for place, size in zip(shown, sizes, strict=True)
    ]


def _bars(name: str, shares: Float[np.ndarray, " T"], place: tuple[float, float], wide: float) -> list[str]:
    left, base = place
    thick = max(0.5, wide - (1.5 if wide > 5 else 0))
    path = "".join(f"M{left + wide * i:.2f} {base:.1f}h{thick:.2f}v{-_BAR * share:.2f}h{-thick:.2f}z"
                   for i, share in enumerate(shares.tolist()))  # fmt: skip
    size = f'x="{left:.1f}" y="{base:.1f}" width="{wide * len(shares):.1f}" height="1"'
    rule = f'<rect class="faint" fill-opacity="0.3" {size}/>'
    return [
        words(name, left - 8, base - 6, anchor="end"),
        rule,
        f'<path class="hue0" fill="currentColor" d="{path}"/>',
    ]


def glimpses(record: Record, _chosen: Chosen) -> str:
    """The path of glimpses over the picture, with their squares; beside it what would have been said after each."""
    if not record.glimpses or record.pictured is None or record.pictured.pictures is None:
        raise DataError("no glimpses in this record, which models that look at a part of a picture at a time make")
    pixels = record.pictured.pictures[0]
    height, width = (_CANVAS * side / max(pixels.shape[:2]) for side in pixels.shape[:2])
    centres = [(each.column * width, each.row * height) for each in record.glimpses]
    squares = [part for each, centre in zip(record.glimpses, centres, strict=True)
               for part in _squares(each, centre, height)]  # fmt: skip
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in centres)
    line = f'<path style="fill:none;stroke:#7fb0ff" stroke-width="2.5" d="{path}"/>'
    dots = [part for number, (x, y) in enumerate(centres, 1) for part in (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="10" style="fill:#20232c;stroke:#fff"/>',
        f'<text x="{x:.1f}" y="{y + 4:.1f}" font-size="11" text-anchor="middle" style="fill:#fff">{number}</text>',
    )]  # fmt: skip
    beyond = max(0.0, *(_beyond(each, width, height) for each in record.glimpses))
    inside = moved(Box((_image(pixels, 0, 0, width, height), *squares, line, *dots), 0, 0), x=beyond, y=beyond)
    picture = Box((inside,), width + 2 * beyond, height + 2 * beyond)
    said = stacked([_said(number, each) for number, each in enumerate(record.glimpses, 1)], gap=10)
    return sheet(beside([picture, said]), title="Glimpses, one after the other")


def _squares(each: Glimpse, centre: tuple[float, float], height: float) -> list[str]:
    (x, y), sides = centre, [size * height for size in each.sizes]
    return [
        f'<rect x="{x - side / 2:.1f}" y="{y - side / 2:.1f}" width="{side:.1f}" height="{side:.1f}" '
        'style="fill:none;stroke:#9aa3b5"/>'
        for side in sides
    ]


def _beyond(each: Glimpse, width: float, height: float) -> float:
    """How far its largest square reaches beyond the picture."""
    half = max(each.sizes) * height / 2
    x, y = each.column * width, each.row * height
    return half - min(x, y, width - x, height - y)


def _said(number: int, each: Glimpse) -> Box:
    """The classes after one glimpse with their probabilities."""
    best = each.options[:3]
    wide = max((length(option.name) for option in best), default=0.0) + 10
    parts = [bold(f"{number}", 0, 12)]
    for row, option in enumerate(best):
        y = 20.0 * row + 12
        parts += [
            words(option.name, 24, y),
            f'<rect class="hue0" fill="currentColor" fill-opacity="0.5" x="{24 + wide:.1f}" y="{y - 11:.1f}" '
            f'width="{max(1.0, 90 * option.probability):.1f}" height="14"/>',
            faint(f"{option.probability:.3f}", 24 + wide + 98, y),
        ]
    return Box(tuple(parts), wide + 170, max(20.0, 20.0 * len(best)))
