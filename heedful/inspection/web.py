"""A record as one web page that shows it from all sides and needs nothing else: no network, no server."""

from __future__ import annotations

import base64
import json
import math
import zlib
from dataclasses import is_dataclass, replace
from html import escape
from importlib import resources
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from heedful.attention.probe import Role
from heedful.errors import DataError
from heedful.inspection.chain import likeliest
from heedful.inspection.figures.unrolled import BOX, MEANING, laid, unrolled_record
from heedful.inspection.flow import Side, graph_of, rollout
from heedful.inspection.heads import measures_of
from heedful.inspection.record import Alternative, Axis, Map, Option, Record
from heedful.inspection.scored import Attribution
from heedful.inspection.svg import photograph

Packed = dict[str, Any]
"""`type` of the numbers (u8, u16, f16 or bit), `shape`, and `data`: base 64 of zlib's stream of them, little-endian."""

_FINE = 2**19
"""Weights in all that a page may hold in 16 bits; more get 8."""

_LONGEST_ALONE, _LONGEST_FRAME = 640, 240
"""Pixels along a side of a picture on a page, and of one of many."""

_MOST_ANSWERS = 3
"""Answers to the whole text that the heading tells."""

_MODULES = "heedful/"
"""What the names of the page's modules begin with."""

_VIEWER = resources.files("heedful.inspection") / "viewer"


def viewer_html(record: Record) -> str:
    """The page. Its policy forbids to load anything; scripts are modules inside the page itself."""
    name = escape(record.title or " ".join(record.axes[0].tokens) or record.model)
    style = "".join((_VIEWER / name).read_text(encoding="utf-8") for name in ("style.css", "views.css"))
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            "style-src 'unsafe-inline'; script-src 'unsafe-inline' data:; img-src data: blob:\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{name}</title>",
            f"<style>{style}</style>",
            f'<script type="importmap">{_script(_import_map())}</script>',
            f'<script type="application/json" id="record">{_script(payload(record))}</script>',
            "</head><body>",
            f'<main id="heedful"><h1 dir="auto">{name}</h1>{_said(record)}<noscript>{_PLAIN}</noscript></main>',
            f'<script type="module">import "{_MODULES}main.js";</script>',
            "</body></html>\n",
        ]
    )


def _said(record: Record) -> str:
    """What became of the text, below it in the heading: all that was written, or the answers to all of it."""
    answers = [f"{each.about}: {each.said}" for each in record.answers if each.place is None and each.said]
    said = record.said or " · ".join(answers[:_MOST_ANSWERS])
    return f'<p class="said" dir="auto">{escape(said)}</p>' if said else ""


def notebook_html(record: Record, *, height: int = 760) -> str:
    """The page as a frame inside another one; it may run its scripts and nothing else.

    Args:
        record: what is shown.
        height: of the frame, in pixels.
    """
    page = escape(viewer_html(record), quote=True)
    name = escape(record.title or record.model, quote=True)
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe srcdoc="{page}" title="{name}" sandbox="allow-scripts" style="{style}"></iframe>'


_MEANS = {
    "entropy": "relative_entropy",
    **{name: name for name in ("distance", "diagonal", "previous", "next", "first", "last", "largest")},
}
"""Measures by the names that the page calls them by."""

_PLAIN = "This page draws its pictures with JavaScript, which is switched off here."


def payload(record: Record) -> dict[str, Any]:
    """The record as the page reads it: its own fields, arrays packed, and what is computed of it."""
    rich = fine(sum(each.weights.size for each in record.maps))
    return {
        **_plain(replace(record, maps=(), attributions=())),
        "attributions": [_attribution(record, each) for each in record.attributions],
        "maps": [_map(each, rich=rich) for each in record.maps],
        "unrolled": _unrolled(record),
        "overall": {side: _overall(record, side) for side in _sides(record)},
    }


def _attribution(record: Record, each: Attribution) -> dict[str, Any]:
    """With the names of its rows, and all that is said of completeness in full precision."""
    exact = {"values": each.values, "baselines": each.baselines, "gaps": each.gaps}
    totals = {name: None if array is None else [float(number) for number in array] for name, array in exact.items()}
    return {**_plain(each), **totals, "names": list(record.attributed(each)[0])}


def _unrolled(record: Record) -> dict[str, Any] | None:
    """The diagram of the model as it is drawn; null where nothing is known of its levels."""
    diagram = unrolled_record(record)
    if diagram is None:
        return None
    drawn = laid(diagram)
    nodes = [[x, y, node.row, node.step, node.name, node.about]
             for node, (x, y) in zip(diagram.nodes, drawn.spots, strict=True)]  # fmt: skip
    kinds = {kind: text for kind, text in MEANING.items() if any(link.kind == kind for link in diagram.links)}
    return {
        "nodes": nodes,
        "links": [[link.start, link.end] for link in diagram.links],
        **{name: _plain(getattr(drawn, name)) for name in ("courses", "looking", "names", "width", "height", "note")},
        "kinds": kinds,
        "box": BOX,
        "steps": diagram.steps,
    }


def _plain(value: Any) -> Any:
    """Parts of a record as what JSON knows; of what a model could have said instead, the fields alone."""
    match value:
        case np.ndarray():
            return value.tolist() if np.issubdtype(value.dtype, np.integer) else pack_numbers(value)
        case tuple():
            return [_plain(each) for each in value]
        case Alternative() | Option():
            return list(vars(value).values())
    if not is_dataclass(value):
        return value
    more = {"size": value.size, **_pictures(value)} if isinstance(value, Axis) else {}
    return {name: _plain(each) for name, each in vars(value).items() if name not in more} | more


def _pictures(axis: Axis) -> dict[str, Any]:
    """Their addresses, which hold the files, and how many times wider than high they are."""
    if axis.pictures is None:
        return {"pictures": None}
    count, height, width, _ = axis.pictures.shape
    longest = _LONGEST_ALONE if count == 1 else _LONGEST_FRAME
    return {"pictures": [photograph(pixels, longest=longest) for pixels in axis.pictures], "aspect": width / height}


def _map(each: Map, *, rich: bool) -> dict[str, Any]:
    packed = {"weights": pack_weights(each.weights, fine=rich), "visible": pack_bits(each.visible)}
    others = {name: _plain(value) for name, value in vars(each).items() if name not in packed}
    return {**others, **packed, "measures": _measures(each), **_chain(each)}


def _chain(each: Map) -> dict[str, Any]:
    """The most probable chains of each head, and last of their mean; nothing where the map has no edges."""
    if each.edges is None:
        return {}
    mean = each.edges.mean(0)
    chains = [likeliest(nodes, edges) for nodes, edges in zip(each.weights, each.edges, strict=True)]
    return {"chains": [*chains, likeliest(each.mean, mean)], "edgesMean": pack_numbers(mean)}


def _measures(each: Map) -> list[dict[str, float | bool | None]]:
    """Of every head, and last of the mean over heads; null where nothing can be measured."""
    found = measures_of(replace(each, edges=None, weights=np.concatenate((each.weights, each.mean[None]))))
    means = {name: getattr(found, attribute) for name, attribute in _MEANS.items()}
    return [
        {
            **{name: _known(float(column[place])) for name, column in means.items()},
            "uniform": bool(found.uniform[place]),
            "unchanging": bool(found.unchanging[place]),
        }
        for place in range(len(each.heads) + 1)
    ]


def _known(number: float) -> float | None:
    return None if math.isnan(number) else round(number, 5)


def _sides(record: Record) -> list[Side]:
    roles = {each.role for each in record.maps}
    sides: dict[Side, set[Role]] = {"decoder": {"decoder", "cross"}, "encoder": {"encoder"}}
    return [side for side, of_side in sides.items() if roles & of_side]


def _overall(record: Record, side: Side) -> dict[str, Any]:
    """Rollout, and what the page needs for flow: its graph without the weights, which stand beside."""
    try:
        graph = graph_of(record, side)
    except DataError as error:
        return {"obstacle": str(error)}
    shares = rollout(record, side=side).shares
    places = {id(each): place for place, each in enumerate(record.maps)}
    return {
        "queries": graph.queries.name,
        "inputs": [axis.name for axis in graph.inputs],
        "top": graph.top.start,
        "steps": [[places[id(step.map)], step.row, step.column] for step in graph.steps],
        "shares": pack_weights(shares[None], fine=fine(shares.size)),
    }


def _script(value: object) -> str:
    """JSON that can stand inside a script element whatever its strings hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _import_map() -> dict[str, dict[str, str]]:
    """Modules by their names, each as a data URL."""
    files = {each.name: _in_text(each.read_bytes()) for each in _VIEWER.iterdir() if each.name.endswith(".js")}
    return {"imports": {_MODULES + name: f"data:text/javascript;base64,{files[name]}" for name in sorted(files)}}


def fine(count: int) -> bool:
    """Whether a page with so many weights has room for 16 bits for each."""
    return count <= _FINE


def pack_weights(weights: Float[np.ndarray, "H Q K"], *, fine: bool) -> Packed:
    """Weights from 0 to 1 as whole numbers: 65,535 w in 16 bits, or 255 w / s in 8.

    The first is off by at most 1/131,070, the second by at most s/510; s is 1, or the largest weight of a head that has
    none above 1/8. The page is told, under `scales`. Weights beyond that range, which `proportional` may give, are kept
    as numbers of 16 bits with a floating point.
    """
    if weights.size and (weights.min() < 0 or weights.max() > 1):
        return pack_numbers(weights)
    exact = weights.astype(np.float64)
    if fine:
        return _packed("u16", np.rint(exact * 65535).astype("<u2"))
    largest = exact.max((1, 2), initial=0.0)
    scales = np.where((largest > 0) & (largest < 1 / 8), largest, 1.0)
    return {**_packed("u8", np.rint(exact / scales[:, None, None] * 255).astype("u1")), "scales": scales.tolist()}


def pack_numbers(numbers: Float[np.ndarray, ...]) -> Packed:
    """Any numbers, in half precision: three digits; beyond 65,504 they are cut to it."""
    limit = float(np.finfo(np.float16).max)
    return _packed("f16", np.clip(numbers, -limit, limit).astype("<f2"))


def pack_bits(bits: Bool[np.ndarray, ...]) -> Packed:
    """Truth values, eight in a byte, the first one highest."""
    return {**_packed("bit", np.packbits(bits)), "shape": list(bits.shape)}


def _packed(kind: str, numbers: np.ndarray) -> Packed:
    stream = zlib.compress(np.ascontiguousarray(numbers).tobytes())
    return {"type": kind, "shape": list(numbers.shape), "data": _in_text(stream)}


def _in_text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
