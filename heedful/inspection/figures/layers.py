"""Pictures of all layers together: what reaches each token of the last one from the input (Abnar and Zuidema 2020)."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.inspection.figures.sheet import Box, Chosen, beside, faint, heading, labelled, length, sheet, stacked
from heedful.inspection.flow import Rollout, Side, attention_flow, rollout
from heedful.inspection.heatmap import Ramp, alignment_svg, colours
from heedful.inspection.record import Record
from heedful.inspection.svg import image

_MOST_WORK = 400_000_000
"""Edges that are looked at, once for each pair of tokens: some minutes."""


def rolled_out(record: Record, chosen: Chosen) -> str:
    """The share of each input in each token of the last layer, over all layers."""
    found = rollout(record, side=_side(chosen))
    return alignment_svg(
        found.tokens,
        found.queries.tokens,
        np.clip(found.shares, 0, 1),
        title="Rollout over all layers",
        ramp=chosen.ramp,
        axes=(", ".join(axis.name for axis in found.inputs), found.queries.name),
        splits=_splits(found),
        highest=_highest(found.shares),
    )


def flowing(record: Record, chosen: Chosen) -> str:
    """Rollout, and beside it the most that could flow from each input to each token of the last layer.

    Raises:
        DataError: as for rollout, or the text is so long that its flows would take many minutes.
    """
    side = _side(chosen)
    found = rollout(record, side=side)
    rows, columns = found.shares.shape
    edges = sum(int(np.count_nonzero(each.visible)) + columns for each in record.maps)
    if rows * columns * edges > _MOST_WORK:
        raise DataError(
            f"attention flow from {columns:,} to {rows:,} tokens through {len(record.maps)} attentions takes too long "
            "for a picture; inspect a shorter text, or take --view rollout"
        )
    amounts = np.stack([attention_flow(record, query, side=side).amounts for query in range(rows)])
    cell = float(np.clip(420 / max(rows, columns), 4, 22))
    panels = [
        _panel("Rollout", "the product of all layers; rows sum to 1", found, found.shares, chosen.ramp, cell=cell),
        _panel("Attention flow", "the most that could pass, each pair alone", found, amounts, chosen.ramp, cell=cell),
    ]
    return sheet(beside(panels, gap=48), title="Rollout and attention flow over all layers")


def _panel(name: str, note: str, found: Rollout, matrix: Float[np.ndarray, "Q I"], ramp: Ramp, *, cell: float) -> Box:
    """A heat map with its tokens, a line between kinds of inputs, and a scale of its own."""
    rows, columns = matrix.shape
    highest = _highest(matrix)
    pixels = colours(np.clip(matrix / highest, 0, 1), ramp)
    panel = [image(pixels, width=cell * columns, height=cell * rows, tip=name)]
    panel += [
        f'<path stroke="{ramp.colour(1.0)}" stroke-dasharray="4 3" d="M{cell * column:.1f} -3V{cell * rows + 3:.1f}"/>'
        for column in _splits(found)
    ]
    axes = f"{found.queries.name} (rows) from {', '.join(axis.name for axis in found.inputs)} (columns)"
    width = max(length(text, 11, longest=80) for text in (note, axes))
    grid = labelled(panel, found.queries.tokens, found.tokens, cell=cell)
    scale = Box(
        (
            image(colours(np.linspace(0, 1, 101)[None], ramp), width=120, height=8),
            faint("0", 0, 22),
            faint(f"{highest:.2f}", 120, 22, anchor="end"),
        ),
        120,
        26,
    )
    return stacked([heading(name, (note, axes), width=width), grid, scale], gap=12)


def _side(chosen: Chosen) -> Side | None:
    return "encoder" if chosen.role == "encoder" else None


def _splits(found: Rollout) -> list[int]:
    """Before which columns another kind of input begins."""
    splits: list[int] = np.cumsum([len(axis.tokens) for axis in found.inputs])[:-1].tolist()
    return splits


def _highest(matrix: Float[np.ndarray, "Q I"]) -> float:
    """What the last colour stands for: the largest number, up to the next twentieth."""
    return max(0.05, math.ceil(20 * float(matrix.max()) - 1e-6) / 20)
