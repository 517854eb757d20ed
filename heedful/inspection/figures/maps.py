"""Pictures of weights: one map, its heads as lines, all maps, who may see whom, and one number for each head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from heedful.attention.probe import Role
from heedful.errors import DataError
from heedful.inspection.figures.sheet import (
    HUES,
    Box,
    Chosen,
    bold,
    faint,
    heading,
    labelled,
    length,
    moved,
    sheet,
    stacked,
    words,
)
from heedful.inspection.heatmap import INK, Ramp, alignment_svg, colours
from heedful.inspection.lettering import visible
from heedful.inspection.record import Map, Record
from heedful.inspection.svg import image

_ROW = 23.0
_APART = 260.0
_WEAKEST, _MOST_LINES = 0.04, 3000
_CELL, _LEFT, _TOP = 46.0, 62.0, 34.0


def alignment(record: Record, chosen: Chosen) -> str:
    """The weights of a head or the mean over heads as a heat map."""
    each = chosen.map_of(record)
    keys, queries = record.axis(each.keys), record.axis(each.queries)
    return alignment_svg(
        keys.tokens,
        queries.tokens,
        chosen.weights_of(each),
        title=chosen.name_of(each),
        ramp=chosen.ramp,
        axes=(keys.name, queries.name),
    )


def heads(record: Record, chosen: Chosen) -> str:
    """Lines from each query on the left to the keys on the right that it looks at, a colour for each head."""
    each = chosen.map_of(record)
    numbers = each.heads if chosen.head is None else (chosen.head,)
    queries, keys = record.axis(each.queries), record.axis(each.keys)
    left = max([length(token) for token in queries.tokens] + [length(queries.name, 11)]) + 12
    right = left + _APART
    parts = [faint(queries.name, left - 10, 0, anchor="end"), faint(keys.name, right + 10, 0)]
    parts += [words(token, left - 10, _ROW * (i + 1), anchor="end") for i, token in enumerate(queries.tokens)]
    parts += [words(token, right + 10, _ROW * (i + 1)) for i, token in enumerate(keys.tokens)]
    weakest = _threshold(each, numbers)
    for head in numbers:
        parts += _lines(each, head, weakest, (left, right))
    below = _ROW * (max(len(queries.tokens), len(keys.tokens)) + 1) + 12
    width = right + max(length(token) for token in keys.tokens) + 12
    legend = _legend(numbers, width)
    note = faint(f"weights below {weakest:.2f} are not drawn", 0, below + legend.height + 16)
    title = each.name if chosen.head is None else chosen.name_of(each)
    box = Box((*parts, moved(legend, y=below), note), max(width, legend.width), below + legend.height + 20)
    return sheet(box, title=title)


def _threshold(each: Map, numbers: Sequence[int]) -> float:
    """The weight from which on there are lines, so that there are not too many."""
    weights = np.sort(np.stack([each.head(head) for head in numbers]).ravel())[::-1]
    return max(_WEAKEST, float(weights[_MOST_LINES])) if len(weights) > _MOST_LINES else _WEAKEST


def _lines(each: Map, head: int, weakest: float, ends: tuple[float, float]) -> Iterator[str]:
    weights = np.clip(each.head(head), 0, 1)
    yield f'<g class="hue{head % HUES}" stroke="currentColor" stroke-width="2">'
    for query, key in np.argwhere(weights >= weakest).tolist():
        weight = float(weights[query, key])
        yield (
            f'<path stroke-opacity="{weight:.2f}" d="M{ends[0]:.1f} {_ROW * (query + 1) - 4:.1f}'
            f'L{ends[1]:.1f} {_ROW * (key + 1) - 4:.1f}"><title>head {head}: {weight:.3f}</title></path>'
        )
    yield "</g>"


def _legend(numbers: Sequence[int], width: float) -> Box:
    """A square of its colour for each head, in rows."""
    step = 74.0
    columns = max(1, min(int(width // step), HUES))
    parts = []
    for place, head in enumerate(numbers):
        x, y = step * (place % columns), 20.0 * (place // columns)
        parts.append(f'<rect class="hue{head % HUES}" fill="currentColor" x="{x}" y="{y}" width="11" height="11"/>')
        parts.append(words(f"head {head}", x + 16, y + 10, font=12))
    return Box(tuple(parts), step * columns, 20.0 * -(-len(numbers) // columns))


def model(record: Record, chosen: Chosen) -> str:
    """All heads of all layers as small heat maps."""
    roles = dict.fromkeys(each.role for each in record.maps if chosen.role in (None, each.role))
    boxes = [_thumbnails([each for each in record.maps if each.role == role], chosen) for role in roles]
    if not boxes:
        raise DataError(f"no {chosen.role or ''} attention in this record".replace("  ", " "))
    return sheet(stacked(boxes), title="All heads")


def _thumbnails(maps: Sequence[Map], chosen: Chosen) -> Box:
    """A row for each layer, a column for each head."""
    numbers = sorted({head for each in maps for head in each.heads})
    queries, keys = max((each.visible.shape for each in maps), key=max)
    side = float(np.clip(1000 / max(1, len(numbers)), 44, 120))
    width, height = side * keys / max(queries, keys), side * queries / max(queries, keys)
    width, height = max(width, 8.0), max(height, 8.0)
    left, top, gap = _LEFT, _TOP, 8.0
    first = maps[0]
    parts = [bold(f"{first.role}: {first.queries} looks at {first.keys}", 0, 10, longest=60)]
    parts += [faint(f"{head}", left + (width + gap) * (place + 0.5) - gap / 2, top - 6, anchor="middle")
              for place, head in enumerate(numbers)]  # fmt: skip
    parts.append(faint("head", left - 14, top - 6, anchor="end"))
    for row, each in enumerate(maps):
        y = top + (height + gap) * row
        parts.append(faint(f"layer {each.layer}", left - 14, y + height / 2 + 4, anchor="end"))
        for head in each.heads:
            x = left + (width + gap) * numbers.index(head)
            pixels = colours(each.head(head), chosen.ramp)
            parts.append(image(pixels, x=x, y=y, width=width, height=height, tip=f"{each.name}, head {head}"))
    full = max(left + (width + gap) * len(numbers), length("x" * 40))
    return Box(tuple(parts), full, top + (height + gap) * len(maps))


def masks(record: Record, chosen: Chosen) -> str:
    """Who may see whom: each different pattern once, with the maps that have it."""
    groups: dict[tuple[str, str, bytes], list[Map]] = {}
    for each in record.maps:
        if chosen.role in (None, each.role):
            groups.setdefault((each.queries, each.keys, each.visible.tobytes()), []).append(each)
    if not groups:
        raise DataError("no attention in this record, so there is nothing that masks hide")
    boxes = [_mask(record, maps) for maps in groups.values()]
    return sheet(stacked(boxes, gap=44), title="Who may see whom")


def mask_name(visible: Bool[np.ndarray, "Q K"]) -> str:
    """What people call a pattern of who sees whom."""
    if visible.all():
        return "everything"
    if not visible.any():
        return "nothing"
    distances = np.arange(visible.shape[0])[:, None] - np.arange(visible.shape[1])
    before, behind = int(distances[visible].max()), int(-distances[visible].min())
    if not (visible == ((distances <= before) & (-distances <= behind))).all():
        return f"{int(visible.sum())} of {visible.size} pairs"
    if before == visible.shape[0] - 1 and behind == 0:
        return "causal"
    names = {0: f"the last {before + 1}", before: f"a window of {before}"}
    return names.get(behind, f"from {before} before to {behind} behind")


def _mask(record: Record, maps: Sequence[Map]) -> Box:
    first = maps[0]
    queries, keys = record.axis(first.queries), record.axis(first.keys)
    rows, columns = first.visible.shape
    cell = float(np.clip(420 / max(rows, columns), 1, 22))
    size = f'width="{cell * columns:.1f}" height="{cell * rows:.1f}"'
    panel = [
        f'<rect class="faint" fill-opacity="0.14" {size}/>',
        f'<path class="hue0" fill="currentColor" fill-opacity="0.85" d="{_runs(first.visible, cell)}">'
        f"<title>visible</title></path>",
    ]
    grid = labelled(panel, queries.tokens, keys.tokens, cell=cell)
    used = _used_by(maps)
    sees = f"{visible(queries.name)} (rows) sees {visible(keys.name)} (columns)"
    name = heading(mask_name(first.visible), (sees, used), width=0.62 * 11 * max(len(used), 50))
    return stacked([name, grid], gap=10)


def _used_by(maps: Sequence[Map]) -> str:
    """The maps, by role: cross layers 0, 1, 2."""
    roles = dict.fromkeys(each.role for each in maps)
    found = []
    for role in roles:
        layers = [str(each.layer) for each in maps if each.role == role]
        found.append(f"{role} {'layer' if len(layers) == 1 else 'layers'} {', '.join(layers)}")
    return "; ".join(found)


def _runs(visible: Bool[np.ndarray, "Q K"], cell: float) -> str:
    """One rectangle for each run of cells that can be seen, with gaps where there is room for them."""
    gap = 1.0 if cell > 8 else 0.0
    side = cell - gap
    path = []
    for row, bits in enumerate(visible):
        if gap:
            starts = np.flatnonzero(bits)
            ends = starts + 1
        else:
            edges = np.flatnonzero(np.diff(np.concatenate([[0], bits.astype(np.int8), [0]])))
            starts, ends = edges[::2], edges[1::2]
        path += [f"M{cell * a:.1f} {cell * row:.1f}h{cell * (b - a) - gap:.1f}v{side:.1f}H{cell * a:.1f}z"
                 for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]  # fmt: skip
    return "".join(path)


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
    boxes = [_squares([each for each in rated if each.role == role], largest, digits, ramp) for role in roles]
    return sheet(stacked(boxes), title=title)


def _squares(rated: Sequence[Rated], largest: float, digits: int, ramp: Ramp) -> Box:
    heads = sorted({each.head for each in rated})
    layers = sorted({each.layer for each in rated})
    parts = [bold(rated[0].role, 0, 10), faint("head", _LEFT - 14, _TOP - 6, anchor="end")]
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
