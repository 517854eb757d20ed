"""Figures of a record as self-contained SVG, by view."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from heedful.attention.hooks import AttentionKind
from heedful.errors import RecipeError
from heedful.inspection.figures.maps import draw_alignment, draw_flow, draw_heads, draw_masks, draw_model, draw_rollout
from heedful.inspection.figures.pictures import draw_frames, draw_glimpses, draw_regions
from heedful.inspection.figures.sheet import MapSelection
from heedful.inspection.figures.steps import draw_inputs, draw_steps
from heedful.inspection.figures.stories import draw_chain, draw_hops, draw_turns
from heedful.inspection.figures.texts import draw_answers, draw_decoding, draw_positions, draw_tree
from heedful.inspection.figures.unrolled import draw_unrolled_model
from heedful.inspection.heatmap import GLOW, ColourRamp
from heedful.inspection.record import InspectionRecord

FigureView = Callable[[InspectionRecord, MapSelection], str]

VIEWS: MappingProxyType[str, FigureView] = MappingProxyType(
    {
        "alignment": draw_alignment,
        "heads": draw_heads,
        "model": draw_model,
        "rollout": draw_rollout,
        "flow": draw_flow,
        "steps": draw_steps,
        "inputs": draw_inputs,
        "positions": draw_positions,
        "masks": draw_masks,
        "tree": draw_tree,
        "decoding": draw_decoding,
        "answers": draw_answers,
        "regions": draw_regions,
        "frames": draw_frames,
        "glimpses": draw_glimpses,
        "hops": draw_hops,
        "chain": draw_chain,
        "turns": draw_turns,
        "unrolled": draw_unrolled_model,
    }
)
"""All views by name."""


def draw_figure(
    record: InspectionRecord,
    *,
    view: str = "alignment",
    role: AttentionKind | None = None,
    layer: int = -1,
    head: int | None = None,
    ramp: ColourRamp = GLOW,
    smooth: bool = True,
) -> str:
    """Draw a view of a record as an SVG file; `view` is a name of `VIEWS`. `role`, `layer` and `head` choose the
    attention; `smooth` smooths the weights of a picture's regions.

    Args:
        record: of one text.
        view: a name of `VIEWS`.
        role: of the attention; for one map, the first of cross, summary, decoder and encoder in the record, unless
            given; for the whole model, all.
        layer: for views of one layer; -1 is the last.
        head: for views of one head; the mean over heads, or all of them side by side, unless given.
        ramp: the colours of weights.
        smooth: for regions, whether weights are smoothed around their centres, or fill the regions.

    Raises:
        RecipeError: there is no such view.
        DataError: the record does not have what the view shows.
    """
    if view not in VIEWS:
        raise RecipeError(f"view: {view!r} is not a view; choose one of {', '.join(VIEWS)}")
    return VIEWS[view](record, MapSelection(role, layer, head, ramp, smooth))
