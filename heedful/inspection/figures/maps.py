"""Figures of attention maps: alignment, heads, the whole model, masks, and rollout and flow over all layers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from heedful.attention.hooks import AttentionKind
from heedful.errors import DataError
from heedful.inspection.figures.sheet import (
    NUM_HUES,
    MapSelection,
    SvgBox,
    draw_bold_text,
    draw_heading,
    draw_labelled_grid,
    draw_note,
    draw_text,
    estimate_length,
    render_sheet,
    stack_horizontally,
    stack_vertically,
    translate_box,
)
from heedful.inspection.flow import AttentionRollout, SideName, compute_attention_flow, compute_rollout
from heedful.inspection.heatmap import INK, ColourRamp, draw_alignment_svg, map_colours
from heedful.inspection.record import AttentionMap, InspectionRecord
from heedful.inspection.svg import draw_image, make_visible

_ROW_HEIGHT = 23.0
_COLUMN_DISTANCE = 260.0
_MIN_WEIGHT, _MAX_LINES = 0.04, 3000
_CELL_SIDE, _LEFT_MARGIN, _TOP_MARGIN = 46.0, 62.0, 34.0


def draw_alignment(record: InspectionRecord, selection: MapSelection) -> str:
    """Draw the selected map of a record as a heat map in SVG: weights of the selected head, or the mean over heads."""
    attention_map = selection.select_map(record)
    keys, queries = record.get_axis(attention_map.keys), record.get_axis(attention_map.queries)
    return draw_alignment_svg(
        keys.tokens,
        queries.tokens,
        selection.select_weights(attention_map),
        title=selection.describe_map(attention_map),
        ramp=selection.ramp,
        axes=(keys.name, queries.name),
    )


def draw_heads(record: InspectionRecord, selection: MapSelection) -> str:
    """Draw as SVG lines from each query of the selected map on the left to the keys on the right that it attends to,
    one colour per head.
    """
    attention_map = selection.select_map(record)
    numbers = attention_map.heads if selection.head is None else (selection.head,)
    queries, keys = record.get_axis(attention_map.queries), record.get_axis(attention_map.keys)
    left = max([estimate_length(token) for token in queries.tokens] + [estimate_length(queries.name, 11)]) + 12
    right = left + _COLUMN_DISTANCE
    parts = [draw_note(queries.name, left - 10, 0, anchor="end"), draw_note(keys.name, right + 10, 0)]
    parts += [
        draw_text(token, left - 10, _ROW_HEIGHT * (i + 1), anchor="end") for i, token in enumerate(queries.tokens)
    ]
    parts += [draw_text(token, right + 10, _ROW_HEIGHT * (i + 1)) for i, token in enumerate(keys.tokens)]
    min_weight = _choose_min_weight(attention_map, numbers)
    for head in numbers:
        parts += _draw_lines(attention_map, head, min_weight, (left, right))
    below = _ROW_HEIGHT * (max(len(queries.tokens), len(keys.tokens)) + 1) + 12
    width = right + max(estimate_length(token) for token in keys.tokens) + 12
    legend = _draw_legend(numbers, width)
    note = draw_note(f"weights below {min_weight:.2f} are not drawn", 0, below + legend.height + 16)
    title = attention_map.name if selection.head is None else selection.describe_map(attention_map)
    box = SvgBox((*parts, translate_box(legend, y=below), note), max(width, legend.width), below + legend.height + 20)
    return render_sheet(box, title=title)


def _choose_min_weight(attention_map: AttentionMap, numbers: Sequence[int]) -> float:
    """Return the smallest weight of the heads `numbers` that is drawn, so that there are not too many lines."""
    weights = np.sort(np.stack([attention_map.get_head_weights(head) for head in numbers]).ravel())[::-1]
    return max(_MIN_WEIGHT, float(weights[_MAX_LINES])) if len(weights) > _MAX_LINES else _MIN_WEIGHT


def _draw_lines(attention_map: AttentionMap, head: int, min_weight: float, ends: tuple[float, float]) -> Iterator[str]:
    """Yield SVG lines for the weights of a head that are at least `min_weight`; `ends` are x on the left and on the
    right.
    """
    weights = np.clip(attention_map.get_head_weights(head), 0, 1)
    yield f'<g class="hue{head % NUM_HUES}" stroke="currentColor" stroke-width="2">'
    for query, key in np.argwhere(weights >= min_weight).tolist():
        weight = float(weights[query, key])
        yield (
            f'<path stroke-opacity="{weight:.2f}" d="M{ends[0]:.1f} {_ROW_HEIGHT * (query + 1) - 4:.1f}'
            f'L{ends[1]:.1f} {_ROW_HEIGHT * (key + 1) - 4:.1f}"><title>head {head}: {weight:.3f}</title></path>'
        )
    yield "</g>"


def _draw_legend(numbers: Sequence[int], width: float) -> SvgBox:
    """Draw a coloured square with its number for each head, in rows of at most `width` pixels."""
    step = 74.0
    columns = max(1, min(int(width // step), NUM_HUES))
    parts = []
    for index, head in enumerate(numbers):
        x, y = step * (index % columns), 20.0 * (index // columns)
        parts.append(f'<rect class="hue{head % NUM_HUES}" fill="currentColor" x="{x}" y="{y}" width="11" height="11"/>')
        parts.append(draw_text(f"head {head}", x + 16, y + 10, font=12))
    return SvgBox(tuple(parts), step * columns, 20.0 * -(-len(numbers) // columns))


def draw_model(record: InspectionRecord, selection: MapSelection) -> str:
    """Draw all heads of all layers as small heat maps in SVG, only those of the selected role if there is one;
    `DataError` without any.
    """
    roles = dict.fromkeys(
        attention_map.role for attention_map in record.maps if selection.role in (None, attention_map.role)
    )
    boxes = [
        _draw_thumbnails([attention_map for attention_map in record.maps if attention_map.role == role], selection)
        for role in roles
    ]
    if not boxes:
        raise DataError(f"no {selection.role or ''} attention in this record".replace("  ", " "))
    return render_sheet(stack_vertically(boxes), title="All heads")


def _draw_thumbnails(maps: Sequence[AttentionMap], selection: MapSelection) -> SvgBox:
    """Draw a row of small heat maps for each of the maps, which have one role, with a column for each head."""
    numbers = sorted({head for attention_map in maps for head in attention_map.heads})
    queries, keys = max((attention_map.visible.shape for attention_map in maps), key=max)
    side = float(np.clip(1000 / max(1, len(numbers)), 44, 120))
    width, height = side * keys / max(queries, keys), side * queries / max(queries, keys)
    width, height = max(width, 8.0), max(height, 8.0)
    left, top, gap = _LEFT_MARGIN, _TOP_MARGIN, 8.0
    first = maps[0]
    parts = [draw_bold_text(f"{first.role}: {first.queries} looks at {first.keys}", 0, 10, longest=60)]
    parts += [draw_note(f"{head}", left + (width + gap) * (index + 0.5) - gap / 2, top - 6, anchor="middle")
              for index, head in enumerate(numbers)]  # fmt: skip
    parts.append(draw_note("head", left - 14, top - 6, anchor="end"))
    for row, attention_map in enumerate(maps):
        y = top + (height + gap) * row
        parts.append(draw_note(f"layer {attention_map.layer}", left - 14, y + height / 2 + 4, anchor="end"))
        for head in attention_map.heads:
            x = left + (width + gap) * numbers.index(head)
            pixels = map_colours(attention_map.get_head_weights(head), selection.ramp)
            parts.append(
                draw_image(pixels, x=x, y=y, width=width, height=height, tip=f"{attention_map.name}, head {head}")
            )
    full = max(left + (width + gap) * len(numbers), estimate_length("x" * 40))
    return SvgBox(tuple(parts), full, top + (height + gap) * len(maps))


def draw_masks(record: InspectionRecord, selection: MapSelection) -> str:
    """Draw each distinct visibility pattern once as SVG, with the maps that have it; only of the selected role if there
    is one.
    """
    groups: dict[tuple[str, str, bytes], list[AttentionMap]] = {}
    for attention_map in record.maps:
        if selection.role in (None, attention_map.role):
            groups.setdefault((attention_map.queries, attention_map.keys, attention_map.visible.tobytes()), []).append(
                attention_map
            )
    if not groups:
        raise DataError("this record has no attention, so there are no masks to show")
    boxes = [_draw_mask(record, maps) for maps in groups.values()]
    return render_sheet(stack_vertically(boxes, gap=44), title="Which tokens each token may attend to")


def name_mask(visible: Bool[np.ndarray, "Q K"]) -> str:
    """Return the usual name of a visibility pattern: "everything", "nothing", "causal", "the last 3", "a window of 2",
    or "from 2 before to 1 after"; if none fits, the number of visible pairs.
    """
    if visible.all():
        return "everything"
    if not visible.any():
        return "nothing"
    distances = np.arange(visible.shape[0])[:, None] - np.arange(visible.shape[1])
    before, after = int(distances[visible].max()), int(-distances[visible].min())
    if not (visible == ((distances <= before) & (-distances <= after))).all():
        return f"{int(visible.sum())} of {visible.size} pairs"
    if before == visible.shape[0] - 1 and after == 0:
        return "causal"
    names = {0: f"the last {before + 1}", before: f"a window of {before}"}
    return names.get(after, f"from {before} before to {after} after")


def _draw_mask(record: InspectionRecord, maps: Sequence[AttentionMap]) -> SvgBox:
    """Draw the visibility pattern that all these maps have, with the tokens of the record."""
    first = maps[0]
    queries, keys = record.get_axis(first.queries), record.get_axis(first.keys)
    rows, columns = first.visible.shape
    cell = float(np.clip(420 / max(rows, columns), 1, 22))
    size = f'width="{cell * columns:.1f}" height="{cell * rows:.1f}"'
    panel = [
        f'<rect class="faint" fill-opacity="0.14" {size}/>',
        f'<path class="hue0" fill="currentColor" fill-opacity="0.85" d="{_draw_runs(first.visible, cell)}">'
        f"<title>visible</title></path>",
    ]
    grid = draw_labelled_grid(panel, queries.tokens, keys.tokens, cell=cell)
    used = _list_maps(maps)
    sees = f"{make_visible(queries.name)} (rows) sees {make_visible(keys.name)} (columns)"
    name = draw_heading(name_mask(first.visible), (sees, used), width=0.62 * 11 * max(len(used), 50))
    return stack_vertically([name, grid], gap=10)


def _list_maps(maps: Sequence[AttentionMap]) -> str:
    """Return the maps by role and layer, such as "cross layers 0, 1, 2"."""
    roles = dict.fromkeys(attention_map.role for attention_map in maps)
    descriptions = []
    for role in roles:
        layers = [str(attention_map.layer) for attention_map in maps if attention_map.role == role]
        descriptions.append(f"{role} {'layer' if len(layers) == 1 else 'layers'} {', '.join(layers)}")
    return "; ".join(descriptions)


def _draw_runs(visible: Bool[np.ndarray, "Q K"], cell: float) -> str:
    """Return an SVG path with one rectangle for each run of visible cells, with gaps if there is room for them. `cell`
    is the side of a cell in pixels.
    """
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
class HeadValue:
    """A head and a number for it."""

    role: AttentionKind
    layer: int
    head: int
    value: float


def draw_heads_grid(values: Sequence[HeadValue], *, title: str, digits: int = 2, ramp: ColourRamp = INK) -> str:
    """Draw one number per head as a grid in SVG; the largest has the last colour of the ramp, 0 and below the first.

    Args:
        values: the heads with their numbers.
        title: a heading that says what the numbers are.
        digits: after the decimal point.
        ramp: the colours.

    Raises:
        DataError: there are no heads.
    """
    if not values:
        raise DataError("no heads to draw")
    largest = max(head_value.value for head_value in values)
    roles = dict.fromkeys(head_value.role for head_value in values)
    boxes = [
        _draw_squares([head_value for head_value in values if head_value.role == role], largest, digits, ramp)
        for role in roles
    ]
    return render_sheet(stack_vertically(boxes), title=title)


def _draw_squares(values: Sequence[HeadValue], largest: float, digits: int, ramp: ColourRamp) -> SvgBox:
    """Draw a coloured square for each head of one role, in a row per layer: `largest` has the last colour, and the
    value is written with `digits` decimals.
    """
    heads = sorted({head_value.head for head_value in values})
    layers = sorted({head_value.layer for head_value in values})
    parts = [draw_bold_text(values[0].role, 0, 10), draw_note("head", _LEFT_MARGIN - 14, _TOP_MARGIN - 6, anchor="end")]
    parts += [
        draw_note(str(head), _LEFT_MARGIN + _CELL_SIDE * (heads.index(head) + 0.5), _TOP_MARGIN - 6, anchor="middle")
        for head in heads
    ]
    parts += [
        draw_note(f"layer {layer}", _LEFT_MARGIN - 14, _TOP_MARGIN + _CELL_SIDE * (row + 0.5) + 4, anchor="end")
        for row, layer in enumerate(layers)
    ]
    for head_value in values:
        x, y = (
            _LEFT_MARGIN + _CELL_SIDE * heads.index(head_value.head),
            _TOP_MARGIN + _CELL_SIDE * layers.index(head_value.layer),
        )
        share = max(0.0, head_value.value / largest) if largest > 0 else 0.0
        ink = "#ffffff" if share > 0.5 else "#24262d"
        parts += [
            f'<rect x="{x + 1:.1f}" y="{y + 1:.1f}" width="{_CELL_SIDE - 2:.1f}" height="{_CELL_SIDE - 2:.1f}" rx="4" '
            f'fill="{ramp.get_colour(share)}"/>',
            f'<text x="{x + _CELL_SIDE / 2:.1f}" y="{y + _CELL_SIDE / 2 + 4:.1f}" font-size="12" text-anchor="middle" '
            f'style="fill:{ink}">{head_value.value + 0.0:.{digits}f}</text>',
        ]
    return SvgBox(
        tuple(parts), max(_LEFT_MARGIN + _CELL_SIDE * len(heads), 200.0), _TOP_MARGIN + _CELL_SIDE * len(layers)
    )


_MAX_EDGE_VISITS = 400_000_000
"""Edges that are looked at, once for each pair of tokens: some minutes."""


def draw_rollout(record: InspectionRecord, selection: MapSelection) -> str:
    """Draw the rollout of the record as SVG: the share of each input token in each token of the last layer. The layer
    is the encoder's if that is selected, else the decoder's if there is one.
    """
    result = compute_rollout(record, side=_get_side(selection))
    return draw_alignment_svg(
        result.input_tokens,
        result.queries.tokens,
        np.clip(result.shares, 0, 1),
        title="Rollout over all layers",
        ramp=selection.ramp,
        axes=(", ".join(axis.name for axis in result.inputs), result.queries.name),
        splits=_find_splits(result),
        highest=_round_up_largest(result.shares),
    )


def draw_flow(record: InspectionRecord, selection: MapSelection) -> str:
    """Draw the rollout of the record as SVG, and beside it the maximum flow from each input token to each token of the
    last layer. The layer is the encoder's if that is selected, else the decoder's if there is one.

    Raises:
        DataError: as for the rollout, or the text is so long that its flows would take many minutes.
    """
    side = _get_side(selection)
    result = compute_rollout(record, side=side)
    rows, columns = result.shares.shape
    edges = sum(int(np.count_nonzero(attention_map.visible)) + columns for attention_map in record.maps)
    if rows * columns * edges > _MAX_EDGE_VISITS:
        raise DataError(
            f"attention flow from {columns:,} to {rows:,} tokens through {len(record.maps)} attentions takes too long "
            "for a picture; inspect a shorter text, or take --view rollout"
        )
    amounts = np.stack([compute_attention_flow(record, query, side=side).amounts for query in range(rows)])
    cell = float(np.clip(420 / max(rows, columns), 4, 22))
    panels = [
        _draw_panel(
            "Rollout", "the product of all layers; rows sum to 1", result, result.shares, selection.ramp, cell=cell
        ),
        _draw_panel(
            "Attention flow", "the most that could pass, each pair alone", result, amounts, selection.ramp, cell=cell
        ),
    ]
    return render_sheet(stack_horizontally(panels, gap=48), title="Rollout and attention flow over all layers")


def _draw_panel(
    name: str, note: str, rollout: AttentionRollout, matrix: Float[np.ndarray, "Q I"], ramp: ColourRamp, *, cell: float
) -> SvgBox:
    """Draw `matrix` as a heat map with its own scale, the tokens of the rollout, and lines between kinds of inputs.
    `name` is its heading and `note` the line below; `cell` is the side of a cell in pixels.
    """
    rows, columns = matrix.shape
    highest = _round_up_largest(matrix)
    pixels = map_colours(np.clip(matrix / highest, 0, 1), ramp)
    panel = [draw_image(pixels, width=cell * columns, height=cell * rows, tip=name)]
    panel += [
        f'<path stroke="{ramp.get_colour(1.0)}" stroke-dasharray="4 3" d="M{cell * column:.1f} '
        f'-3V{cell * rows + 3:.1f}"/>'
        for column in _find_splits(rollout)
    ]
    axes = f"{rollout.queries.name} (rows) from {', '.join(axis.name for axis in rollout.inputs)} (columns)"
    width = max(estimate_length(text, 11, longest=80) for text in (note, axes))
    grid = draw_labelled_grid(panel, rollout.queries.tokens, rollout.input_tokens, cell=cell)
    scale = SvgBox(
        (
            draw_image(map_colours(np.linspace(0, 1, 101)[None], ramp), width=120, height=8),
            draw_note("0", 0, 22),
            draw_note(f"{highest:.2f}", 120, 22, anchor="end"),
        ),
        120,
        26,
    )
    return stack_vertically([draw_heading(name, (note, axes), width=width), grid, scale], gap=12)


def _get_side(selection: MapSelection) -> SideName | None:
    """Return "encoder" if the encoder was selected, else None."""
    return "encoder" if selection.role == "encoder" else None


def _find_splits(rollout: AttentionRollout) -> list[int]:
    """Return the columns before which another input axis begins."""
    splits: list[int] = np.cumsum([len(axis.tokens) for axis in rollout.inputs])[:-1].tolist()
    return splits


def _round_up_largest(matrix: Float[np.ndarray, "Q I"]) -> float:
    """Return the largest value, rounded up to the next twentieth."""
    return max(0.05, math.ceil(20 * float(matrix.max()) - 1e-6) / 20)
