"""Figures of attention to pictures: regions word by word, strips of frames, glimpse paths."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, UInt8

from heedful.errors import DataError
from heedful.inspection.figures.sheet import (
    MapSelection,
    SvgBox,
    draw_bold_text,
    draw_note,
    draw_text,
    estimate_length,
    render_sheet,
    stack_horizontally,
    stack_vertically,
    translate_box,
)
from heedful.inspection.figures.stories import find_map, name_steps
from heedful.inspection.heatmap import map_colours
from heedful.inspection.record import Glimpse, InspectionRecord, MapAxis
from heedful.inspection.svg import Number, make_photo_url

SMOOTHING_WIDTH = 0.75
"""Of the Gaussian around the centre of a region, in regions."""

_REGION_SIDE, _REGIONS_PER_ROW, _PIXELS_PER_UNIT = 176.0, 5, 1.5
_OVERLAY_OPACITY = 0.55
"""How much of a picture the weights cover."""

_STRIP_WIDTH, _ROW_HEIGHT, _BAR_HEIGHT = 900.0, 34.0, 26.0
_MIN_THUMBNAIL_WIDTH, _SPECTROGRAM_HEIGHT, _MIN_LABEL_DISTANCE = 56.0, 80.0, 26.0
_PICTURE_SIDE = 420.0


def build_gaussian_kernel(positions: int, cells: int) -> Float[np.ndarray, "places cells"]:
    """Return the Gaussian weight of each of `cells` cells at each of `positions` points of a side; rows sum to 1."""
    centres = (np.arange(positions) + 0.5) * cells / positions
    shares = np.exp(-0.5 * ((centres[:, None] - np.arange(cells) - 0.5) / SMOOTHING_WIDTH) ** 2)
    rows: np.ndarray = shares / shares.sum(1, keepdims=True)
    return rows


def build_overlap_kernel(positions: int, cells: int) -> Float[np.ndarray, "places cells"]:
    """Divide a side into `positions` intervals, and return the share of each that lies in each of `cells` cells; rows
    sum to 1.
    """
    ends = np.arange(positions + 1) * cells / positions
    inside = np.minimum(ends[1:, None], np.arange(1, cells + 1)) - np.maximum(ends[:-1, None], np.arange(cells))
    rows: np.ndarray = np.clip(inside, 0, None) * positions / cells
    return rows


def overlay_weights(
    axis: MapAxis, cells: Float[np.ndarray, " K"], *, side: float, selection: MapSelection
) -> UInt8[np.ndarray, "H W 3"]:
    """Blend the picture of a grid with the weights of its cells; the largest weight has the ramp's last colour. `side`
    is the longer side of the result, in pixels.

    Args:
        axis: the grid; without a picture the weights are shown alone.
        cells: their weights.
        side: the longer side of the result, in pixels.
        selection: colours, and whether cells are smoothed.
    """
    assert axis.columns is not None
    rows, columns = len(cells) // axis.columns, axis.columns
    height, width = (rows, columns) if axis.pictures is None else axis.pictures.shape[1:3]
    down, across = (max(1, round(side * length / max(height, width))) for length in (height, width))
    kernel = build_gaussian_kernel if selection.smooth else build_overlap_kernel
    weights = kernel(down, rows) @ cells.reshape(rows, columns) @ kernel(across, columns).T
    heat = map_colours(weights / (float(weights.max()) or 1.0), selection.ramp)
    if axis.pictures is None:
        return heat
    rows_of_picture = (build_overlap_kernel(down, height) @ axis.pictures[0].reshape(height, -1)).reshape(
        down, width, 3
    )
    picture = build_overlap_kernel(across, width) @ rows_of_picture
    blended: np.ndarray = np.rint(_OVERLAY_OPACITY * heat + (1 - _OVERLAY_OPACITY) * picture).astype(np.uint8)
    return blended


def draw_regions(record: InspectionRecord, selection: MapSelection) -> str:
    """Draw as SVG a small picture for each step of the selected map with the attention over it, and below it the token
    with its probability; `DataError` if no map attends to a picture.
    """
    attention_map = find_map(
        record,
        selection,
        lambda attention_map: record.get_axis(attention_map.keys).kind == "grid",
        description="a picture",
    )
    axis = record.get_axis(attention_map.keys)
    boxes = [
        _draw_region(name, overlay_weights(axis, cells, side=_REGION_SIDE * _PIXELS_PER_UNIT, selection=selection))
        for name, cells in zip(name_steps(record, attention_map), selection.select_weights(attention_map), strict=True)
    ]
    lines = [
        stack_horizontally(boxes[start : start + _REGIONS_PER_ROW], gap=16)
        for start in range(0, len(boxes), _REGIONS_PER_ROW)
    ]
    return render_sheet(stack_vertically(lines, gap=16), title=selection.describe_map(attention_map))


def _draw_region(name: str, pixels: UInt8[np.ndarray, "H W 3"]) -> SvgBox:
    """Draw the picture of one step, `pixels`, with its name below it."""
    height, width = (side / _PIXELS_PER_UNIT for side in pixels.shape[:2])
    box_width = max(width, estimate_length(name))
    label = draw_text(name, box_width / 2, height + 18, anchor="middle")
    return SvgBox((_draw_photo(pixels, (box_width - width) / 2, 0, width, height), label), box_width, height + 24)


def _draw_photo(pixels: UInt8[np.ndarray, "H W 3"], x: Number, y: Number, width: Number, height: Number) -> str:
    """Return an SVG image element of a photograph at (x, y), at no higher resolution than its size needs."""
    longest = max(1, round(_PIXELS_PER_UNIT * max(width, height)))
    return (
        f'<image x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" preserveAspectRatio="none" '
        f'href="{make_photo_url(pixels, longest=longest)}"/>'
    )


def draw_frames(record: InspectionRecord, selection: MapSelection) -> str:
    """Draw as SVG a strip of frames with a row of bars below it for each step of the selected map; frames known to
    matter are marked through all rows. Raise `DataError` if no map attends to frames.
    """
    attention_map = find_map(
        record,
        selection,
        lambda attention_map: record.get_axis(attention_map.keys).kind == "frames",
        description="frames",
    )
    axis, names, weights = (
        record.get_axis(attention_map.keys),
        name_steps(record, attention_map),
        selection.select_weights(attention_map),
    )
    left = max(estimate_length(name) for name in names) + 12
    frame_width = min(110.0, _STRIP_WIDTH / len(axis.tokens))
    strip_height, strip_elements = _draw_strip(axis, left, frame_width)
    top = strip_height + 22
    bottom = top + _ROW_HEIGHT * len(names)
    marks = [
        f'<rect class="hue1" fill="currentColor" fill-opacity="0.22" x="{left + frame_width * index:.1f}" y="0" '
        f'width="{frame_width:.1f}" height="{bottom:.1f}"><title>known to matter</title></rect>'
        for index in axis.marked
    ]
    stride = max(1, int(np.ceil(_MIN_LABEL_DISTANCE / frame_width)))
    numbers = [
        draw_note(name, left + frame_width * (index + 0.5), strip_height + 14, anchor="middle")
        for index, name in enumerate(axis.tokens)
        if index % stride == 0
    ]
    largest = float(weights.max()) or 1.0
    rows = [
        part
        for index, name in enumerate(names)
        for part in _draw_bars(name, weights[index] / largest, (left, top + _ROW_HEIGHT * (index + 1) - 4), frame_width)
    ]
    note = f"the highest bar is {largest:.3f}" + ("; marked frames are known to matter" if axis.marked else "")
    width = max(left + frame_width * len(axis.tokens), estimate_length(note, 11, longest=100)) + 8
    return render_sheet(
        SvgBox((*marks, *strip_elements, *numbers, *rows, draw_note(note, 0, bottom + 18)), width, bottom + 22),
        title=selection.describe_map(attention_map),
    )


def _draw_strip(axis: MapAxis, left: float, frame_width: float) -> tuple[float, list[str]]:
    """Return the height and the SVG elements of the pictures along the top: as many as fit, or the one of all frames.
    `left` is x of the first frame.
    """
    if axis.pictures is None:
        return 0.0, []
    count, (pictures, height, width, _) = len(axis.tokens), axis.pictures.shape
    if pictures < count:
        return _SPECTROGRAM_HEIGHT, [_draw_photo(axis.pictures[0], left, 0, frame_width * count, _SPECTROGRAM_HEIGHT)]
    stride = int(np.ceil(_MIN_THUMBNAIL_WIDTH / frame_width))
    strip_height = min(90.0, (stride * frame_width - 2) * height / width)
    shown_indices = range(0, count, stride)
    sizes = [min(strip_height * width / height, (count - index) * frame_width) for index in shown_indices]
    return strip_height, [
        _draw_photo(axis.pictures[index], left + index * frame_width, 0, size, strip_height)
        for index, size in zip(shown_indices, sizes, strict=True)
    ]


def _draw_bars(
    name: str, shares: Float[np.ndarray, " T"], origin: tuple[float, float], frame_width: float
) -> list[str]:
    """Draw a bar for the weight of each frame in one step, with the name of the step. `shares` are weights relative to
    the largest; `origin` is x and y of the lower left corner.
    """
    left, base = origin
    bar_width = max(0.5, frame_width - (1.5 if frame_width > 5 else 0))
    path = "".join(
        f"M{left + frame_width * i:.2f} {base:.1f}h{bar_width:.2f}v{-_BAR_HEIGHT * share:.2f}h{-bar_width:.2f}z"
        for i, share in enumerate(shares.tolist())
    )
    size = f'x="{left:.1f}" y="{base:.1f}" width="{frame_width * len(shares):.1f}" height="1"'
    rule = f'<rect class="faint" fill-opacity="0.3" {size}/>'
    return [
        draw_text(name, left - 8, base - 6, anchor="end"),
        rule,
        f'<path class="hue0" fill="currentColor" d="{path}"/>',
    ]


def draw_glimpses(record: InspectionRecord, _selection: MapSelection) -> str:
    """Draw as SVG the path of the record's glimpses over the picture, with their squares, and beside it the predictions
    after each; `DataError` if it has no glimpses.
    """
    if not record.glimpses or record.picture_axis is None or record.picture_axis.pictures is None:
        raise DataError(
            "this record has no glimpses; only models that look at one part of a picture at a time make them"
        )
    pixels = record.picture_axis.pictures[0]
    height, width = (_PICTURE_SIDE * side / max(pixels.shape[:2]) for side in pixels.shape[:2])
    centres = [(glimpse.column * width, glimpse.row * height) for glimpse in record.glimpses]
    squares = [
        part
        for glimpse, centre in zip(record.glimpses, centres, strict=True)
        for part in _draw_squares(glimpse, centre, height)
    ]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in centres)
    line = f'<path style="fill:none;stroke:#7fb0ff" stroke-width="2.5" d="{path}"/>'
    dots = [
        part
        for number, (x, y) in enumerate(centres, 1)
        for part in (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="10" style="fill:#20232c;stroke:#fff"/>',
            f'<text x="{x:.1f}" y="{y + 4:.1f}" font-size="11" text-anchor="middle" style="fill:#fff">{number}</text>',
        )
    ]
    overhang = max(0.0, *(_compute_overhang(glimpse, width, height) for glimpse in record.glimpses))
    picture_group = translate_box(
        SvgBox((_draw_photo(pixels, 0, 0, width, height), *squares, line, *dots), 0, 0), x=overhang, y=overhang
    )
    picture = SvgBox((picture_group,), width + 2 * overhang, height + 2 * overhang)
    predictions = stack_vertically(
        [_draw_prediction(number, glimpse) for number, glimpse in enumerate(record.glimpses, 1)], gap=10
    )
    return render_sheet(stack_horizontally([picture, predictions]), title="Glimpses, one after the other")


def _draw_squares(glimpse: Glimpse, centre: tuple[float, float], height: float) -> list[str]:
    """Draw the squares that one glimpse sees; `centre` is x and y in pixels, and `height` that of the picture."""
    (x, y), sides = centre, [size * height for size in glimpse.sizes]
    return [
        f'<rect x="{x - side / 2:.1f}" y="{y - side / 2:.1f}" width="{side:.1f}" height="{side:.1f}" '
        'style="fill:none;stroke:#9aa3b5"/>'
        for side in sides
    ]


def _compute_overhang(glimpse: Glimpse, width: float, height: float) -> float:
    """Return how far the largest square of a glimpse extends beyond the picture, whose size is `width` and `height`."""
    half = max(glimpse.sizes) * height / 2
    x, y = glimpse.column * width, glimpse.row * height
    return half - min(x, y, width - x, height - y)


def _draw_prediction(number: int, glimpse: Glimpse) -> SvgBox:
    """Draw the three most probable predictions after one glimpse; `number` counts the glimpses from 1."""
    best = glimpse.options[:3]
    label_width = max((estimate_length(option.name) for option in best), default=0.0) + 10
    parts = [draw_bold_text(f"{number}", 0, 12)]
    for row, option in enumerate(best):
        y = 20.0 * row + 12
        parts += [
            draw_text(option.name, 24, y),
            f'<rect class="hue0" fill="currentColor" fill-opacity="0.5" x="{24 + label_width:.1f}" y="{y - 11:.1f}" '
            f'width="{max(1.0, 90 * option.probability):.1f}" height="14"/>',
            draw_note(f"{option.probability:.3f}", 24 + label_width + 98, y),
        ]
    return SvgBox(tuple(parts), label_width + 170, max(20.0, 20.0 * len(best)))
