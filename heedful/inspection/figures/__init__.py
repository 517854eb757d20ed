"""Every view of a record as one self-contained SVG."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from heedful.attention.probe import Role
from heedful.errors import RecipeError
from heedful.inspection.figures.answers import answers, decoding
from heedful.inspection.figures.layers import flowing, rolled_out
from heedful.inspection.figures.maps import alignment, heads, masks, model
from heedful.inspection.figures.pictures import frames, glimpses, regions
from heedful.inspection.figures.sheet import Chosen
from heedful.inspection.figures.stories import chain, hops, turns
from heedful.inspection.figures.texts import positions, tree
from heedful.inspection.figures.unrolled import unrolled_model
from heedful.inspection.heatmap import GLOW, Ramp
from heedful.inspection.record import Record

View = Callable[[Record, Chosen], str]

VIEWS: MappingProxyType[str, View] = MappingProxyType(
    {
        "alignment": alignment,
        "heads": heads,
        "model": model,
        "rollout": rolled_out,
        "flow": flowing,
        "positions": positions,
        "masks": masks,
        "tree": tree,
        "decoding": decoding,
        "answers": answers,
        "regions": regions,
        "frames": frames,
        "glimpses": glimpses,
        "hops": hops,
        "chain": chain,
        "turns": turns,
        "unrolled": unrolled_model,
    }
)
"""All views by name."""


def figure(
    record: Record,
    *,
    view: str = "alignment",
    role: Role | None = None,
    layer: int = -1,
    head: int | None = None,
    ramp: Ramp = GLOW,
    smooth: bool = True,
) -> str:
    """A picture of the record as an SVG file.

    Args:
        record: of one text.
        view: a name of `VIEWS`.
        role: who looks at whom; for one map, the first of cross, summary, decoder and encoder that there is, unless
            given; for the whole model, all.
        layer: of views of one layer; -1 is the last.
        head: of views of one head; the mean over heads, or all of them side by side, unless given.
        ramp: the colours of weights.
        smooth: of regions, whether their weights are spread around their centres, or fill them.

    Raises:
        RecipeError: there is no such view.
        DataError: the record does not have what the view shows.
    """
    if view not in VIEWS:
        raise RecipeError(f"no figure {view!r}; there are {', '.join(VIEWS)}")
    return VIEWS[view](record, Chosen(role, layer, head, ramp, smooth))
