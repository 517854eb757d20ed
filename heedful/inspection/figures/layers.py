"""Figures over all layers: attention rollout and attention flow (Abnar and Zuidema 2020)."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.inspection.figures.sheet import (
    MapSelection,
    SvgBox,
    draw_heading,
    draw_labelled_grid,
    draw_note,
    estimate_length,
    render_sheet,
    stack_horizontally,
    stack_vertically,
)
from heedful.inspection.flow import AttentionRollout, SideName, compute_attention_flow, compute_rollout
from heedful.inspection.heatmap import ColourRamp, draw_alignment_svg, map_colours
from heedful.inspection.record import InspectionRecord
from heedful.inspection.svg import draw_image

_MAX_EDGE_VISITS = 400_000_000
"""Edges that are looked at, once for each pair of tokens: some minutes."""


def draw_rollout(record: InspectionRecord, selection: MapSelection) -> str:
    """Draw the rollout: the share of each input token in each token of the last layer."""
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
    """Draw the rollout, and beside it the maximum flow from each input token to each token of the last layer.

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
    """Draw a heat map with its tokens, lines between kinds of inputs, and its own scale."""
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
