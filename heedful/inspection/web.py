"""The interactive viewer of a record as one self-contained web page, without network or server."""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from dataclasses import is_dataclass, replace
from html import escape
from importlib import resources
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from heedful.attention.hooks import AttentionKind
from heedful.errors import DataError
from heedful.inspection.figures.stories import find_likeliest_chains
from heedful.inspection.figures.unrolled import BOX_SIZE, LINK_MEANINGS, lay_out_diagram, unroll_record
from heedful.inspection.flow import SideName, build_attention_graph, compute_rollout
from heedful.inspection.heads import measure_map
from heedful.inspection.record import (
    AnswerOption,
    AttentionMap,
    Attribution,
    InspectionRecord,
    MapAxis,
    TokenAlternative,
)
from heedful.inspection.svg import make_photo_url

PackedArray = dict[str, Any]
"""`type` of the numbers (u8, u16, f16 or bit), `shape`, and `data`: base 64 of zlib's stream of them, little-endian."""

_MAX_16_BIT_WEIGHTS = 2**19
"""Weights in all that a page may hold in 16 bits; more get 8."""

_MAX_PICTURE_SIDE, _MAX_FRAME_SIDE = 640, 240
"""Pixels along a side of a picture on a page, and of one of many."""

_MAX_HEADING_ANSWERS = 3
"""Number of answers about the whole text that the heading shows."""

_MODULE_PREFIX = "heedful/"
"""What the names of the page's modules begin with."""

_LOCAL_FILES = " 'self' file:"
"""Sources of a content security policy: files of the same server, or of the same disk."""

_DOC_COMMENT = re.compile(r"^ */\*\*(?:(?!\*/).)*\*/ *\n", re.MULTILINE | re.DOTALL)
"""A documentation comment with nothing else on its lines."""

_VIEWER_FOLDER = resources.files("heedful.inspection") / "viewer"


def render_viewer(record: InspectionRecord, *, script_file: str | None = None) -> str:
    """Return the viewer page; its policy forbids loading anything, and its scripts are inside the page.

    Args:
        record: the record to show.
        script_file: name of a file beside the page with `render_viewer_script()`, which several pages load instead of
            having the scripts inside; the policy then also allows files of the same folder or server.
    """
    import_map = _to_script_json(_build_import_map())
    scripts = f'<script type="importmap">{import_map}</script>'
    if script_file is not None:
        scripts = f'<script src="{escape(script_file, quote=True)}"></script>'
    name = escape(record.title or " ".join(record.axes[0].tokens) or record.model)
    style = "".join((_VIEWER_FOLDER / name).read_text(encoding="utf-8") for name in ("style.css", "views.css"))
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            f"style-src 'unsafe-inline'; script-src 'unsafe-inline' data:{_LOCAL_FILES if script_file else ''}; "
            'img-src data: blob:">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{name}</title>",
            f"<style>{style}</style>",
            scripts,
            f'<script type="application/json" id="record">{_to_script_json(build_payload(record))}</script>',
            "</head><body>",
            '<main id="heedful"><h1 '
            f'dir="auto">{name}</h1>{_render_output(record)}<noscript>{_NO_SCRIPT_TEXT}</noscript></main>',
            f'<script type="module">import "{_MODULE_PREFIX}main.js";</script>',
            "</body></html>\n",
        ]
    )


def render_viewer_script() -> str:
    """Return the script that several viewer pages load: it gives the page the modules of the viewer. A page that is
    opened from a disk may load such a script, but not modules.
    """
    import_map = json.dumps(_to_script_json(_build_import_map()))
    return (
        'const modules = document.createElement("script");\n'
        'modules.type = "importmap";\n'
        f"modules.textContent = {import_map};\n"
        "document.head.append(modules);\n"
    )


def _render_output(record: InspectionRecord) -> str:
    """Return the heading's paragraph with the generated text, or with the answers to the whole text; empty without
    both.
    """
    answers = [
        f"{answer.about}: {answer.answer_text}"
        for answer in record.answers
        if answer.place is None and answer.answer_text
    ]
    output = record.said or " · ".join(answers[:_MAX_HEADING_ANSWERS])
    return f'<p class="said" dir="auto">{escape(output)}</p>' if output else ""


def render_notebook_viewer(record: InspectionRecord, *, height: int = 760) -> str:
    """Return the viewer page as a sandboxed frame for a notebook, `height` pixels high, which may run scripts and
    nothing else.

    Args:
        record: the record to show.
        height: of the frame, in pixels.
    """
    page = escape(render_viewer(record), quote=True)
    name = escape(record.title or record.model, quote=True)
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe srcdoc="{page}" title="{name}" sandbox="allow-scripts" style="{style}"></iframe>'


_MEASURE_FIELDS = {
    "entropy": "relative_entropy",
    **{name: name for name in ("distance", "diagonal", "previous", "next", "first", "last", "largest")},
}
"""Measures by the names that the page calls them by."""

_NO_SCRIPT_TEXT = "This page draws its pictures with JavaScript, which is switched off here."


def build_payload(record: InspectionRecord) -> dict[str, Any]:
    """Return the record as JSON for the page: its fields, packed arrays, and derived measures."""
    use_16_bits = fits_16_bits(sum(each.weights.size for each in record.maps))
    return {
        **_to_json(replace(record, maps=(), attributions=())),
        "attributions": [_pack_attribution(record, each) for each in record.attributions],
        "maps": [_pack_map(each, use_16_bits=use_16_bits) for each in record.maps],
        "unrolled": _build_unrolled(record),
        "overall": {side: _build_rollout(record, side) for side in _list_sides(record)},
    }


def _pack_attribution(record: InspectionRecord, attribution: Attribution) -> dict[str, Any]:
    """Return an attribution with its row names, whether they are complete, and its values in full precision."""
    exact = {"values": attribution.values, "baselines": attribution.baselines, "gaps": attribution.gaps}
    totals = {name: None if array is None else [float(number) for number in array] for name, array in exact.items()}
    complete = None if attribution.complete is None else attribution.complete.tolist()
    names = list(record.list_attribution_labels(attribution)[0])
    return {**_to_json(attribution), **totals, "complete": complete, "names": names}


def _build_unrolled(record: InspectionRecord) -> dict[str, Any] | None:
    """Return the diagram of the record's model over its tokens, with its layout; None if the record lacks the model's
    levels.
    """
    diagram = unroll_record(record)
    if diagram is None:
        return None
    layout = lay_out_diagram(diagram)
    nodes = [[x, y, node.row, node.step, node.name, node.about]
             for node, (x, y) in zip(diagram.nodes, layout.centres, strict=True)]  # fmt: skip
    kinds = {kind: text for kind, text in LINK_MEANINGS.items() if any(link.kind == kind for link in diagram.links)}
    return {
        "nodes": nodes,
        "links": [[link.start, link.end] for link in diagram.links],
        **{
            name: _to_json(getattr(layout, name)) for name in ("courses", "looking", "names", "width", "height", "note")
        },
        "kinds": kinds,
        "box": BOX_SIZE,
        "steps": diagram.num_steps,
    }


def _to_json(value: Any) -> Any:
    """Convert a part of a record, or a value in it, to JSON values. Arrays are packed, unless they contain whole
    numbers; alternatives and options become lists of their fields.
    """
    match value:
        case np.ndarray():
            return value.tolist() if np.issubdtype(value.dtype, np.integer) else pack_numbers(value)
        case tuple():
            return [_to_json(each) for each in value]
        case TokenAlternative() | AnswerOption():
            return list(vars(value).values())
    if not is_dataclass(value):
        return value
    extra = {"size": value.size_text, **_build_picture_urls(value)} if isinstance(value, MapAxis) else {}
    return {name: _to_json(each) for name, each in vars(value).items() if name not in extra} | extra


def _build_picture_urls(axis: MapAxis) -> dict[str, Any]:
    """Return an axis's pictures as data URLs (`pictures`; None if it has none) and their aspect ratio (`aspect`)."""
    if axis.pictures is None:
        return {"pictures": None}
    count, height, width, _ = axis.pictures.shape
    longest = _MAX_PICTURE_SIDE if count == 1 else _MAX_FRAME_SIDE
    return {"pictures": [make_photo_url(pixels, longest=longest) for pixels in axis.pictures], "aspect": width / height}


def _pack_map(attention_map: AttentionMap, *, use_16_bits: bool) -> dict[str, Any]:
    """Return a map with measures, chains and packed weights, which have 16 bits each or 8."""
    packed = {
        "weights": pack_weights(attention_map.weights, use_16_bits=use_16_bits),
        "visible": pack_bits(attention_map.visible),
    }
    others = {name: _to_json(value) for name, value in vars(attention_map).items() if name not in packed}
    return {**others, **packed, "measures": _build_measures(attention_map), **_build_chains(attention_map)}


def _build_chains(attention_map: AttentionMap) -> dict[str, Any]:
    """Return the most probable chains of each head, and last those of their mean; empty if the map has no edges."""
    if attention_map.edges is None:
        return {}
    mean = attention_map.edges.mean(0)
    chains = [
        find_likeliest_chains(nodes, edges)
        for nodes, edges in zip(attention_map.weights, attention_map.edges, strict=True)
    ]
    return {
        "chains": [*chains, find_likeliest_chains(attention_map.mean_weights, mean)],
        "edgesMean": pack_numbers(mean),
    }


def _build_measures(attention_map: AttentionMap) -> list[dict[str, float | bool | None]]:
    """Return the measures of every head, and last those of the mean over heads; null where nothing can be measured."""
    measures = measure_map(
        replace(
            attention_map, edges=None, weights=np.concatenate((attention_map.weights, attention_map.mean_weights[None]))
        )
    )
    means = {name: getattr(measures, attribute) for name, attribute in _MEASURE_FIELDS.items()}
    return [
        {
            **{name: _round_or_none(float(column[index])) for name, column in means.items()},
            "uniform": bool(measures.uniform[index]),
            "unchanging": bool(measures.unchanging[index]),
        }
        for index in range(len(attention_map.heads) + 1)
    ]


def _round_or_none(number: float) -> float | None:
    """Round a number, or return None for NaN."""
    return None if math.isnan(number) else round(number, 5)


def _list_sides(record: InspectionRecord) -> list[SideName]:
    """Return the sides that have attention in the record."""
    roles = {attention_map.role for attention_map in record.maps}
    sides: dict[SideName, set[AttentionKind]] = {"decoder": {"decoder", "cross"}, "encoder": {"encoder"}}
    return [side for side, of_side in sides.items() if roles & of_side]


def _build_rollout(record: InspectionRecord, side: SideName) -> dict[str, Any]:
    """Return the rollout of a side, and the graph from which the page computes flows; only a message (`obstacle`) if
    the record lacks layers.
    """
    try:
        graph = build_attention_graph(record, side)
    except DataError as error:
        return {"obstacle": str(error)}
    shares = compute_rollout(record, side=side).shares
    map_indices = {id(each): index for index, each in enumerate(record.maps)}
    return {
        "queries": graph.queries.name,
        "inputs": [axis.name for axis in graph.inputs],
        "top": graph.top.start,
        "steps": [[map_indices[id(step.map)], step.row, step.column] for step in graph.steps],
        "shares": pack_weights(shares[None], use_16_bits=fits_16_bits(shares.size)),
    }


def _to_script_json(value: object) -> str:
    """Return JSON that is safe inside a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _build_import_map() -> dict[str, dict[str, str]]:
    """Return the page's modules by name, as data URLs."""
    files = {
        file.name: _encode_base64(_strip_doc_comments(file.read_text(encoding="utf-8")).encode())
        for file in _VIEWER_FOLDER.iterdir()
        if file.name.endswith(".js")
    }
    return {"imports": {_MODULE_PREFIX + name: f"data:text/javascript;base64,{files[name]}" for name in sorted(files)}}


def _strip_doc_comments(source: str) -> str:
    """Return a module without the documentation comments that fill whole lines, which make pages a quarter larger."""
    return _DOC_COMMENT.sub("", source)


def fits_16_bits(count: int) -> bool:
    """Return whether a page with this many weights may store each in 16 bits."""
    return count <= _MAX_16_BIT_WEIGHTS


def pack_weights(weights: Float[np.ndarray, "H Q K"], *, use_16_bits: bool) -> PackedArray:
    """Pack weights w from 0 to 1 as integers: 65,535 w in 16 bits, or 255 w / s in 8, where s is 1 or a head's largest
    weight.

    The error is at most 1/131,070 or s/510; s is 1, or the largest weight of a head that has none above 1/8, and is
    stored under `scales`. Weights outside that range, which `proportional` may give, are stored as 16-bit floating
    point numbers.
    """
    if weights.size and (weights.min() < 0 or weights.max() > 1):
        return pack_numbers(weights)
    exact = weights.astype(np.float64)
    if use_16_bits:
        return _pack_array("u16", np.rint(exact * 65535).astype("<u2"))
    largest = exact.max((1, 2), initial=0.0)
    scales = np.where((largest > 0) & (largest < 1 / 8), largest, 1.0)
    return {**_pack_array("u8", np.rint(exact / scales[:, None, None] * 255).astype("u1")), "scales": scales.tolist()}


def pack_numbers(numbers: Float[np.ndarray, ...]) -> PackedArray:
    """Pack numbers in half precision (three digits), clipped at 65,504."""
    limit = float(np.finfo(np.float16).max)
    return _pack_array("f16", np.clip(numbers, -limit, limit).astype("<f2"))


def pack_bits(bits: Bool[np.ndarray, ...]) -> PackedArray:
    """Pack booleans, eight per byte, the first one highest."""
    return {**_pack_array("bit", np.packbits(bits)), "shape": list(bits.shape)}


def _pack_array(kind: str, numbers: np.ndarray) -> PackedArray:
    """Compress an array and return it with its shape and type; `kind` is the type's name on the page, such as u8."""
    stream = zlib.compress(np.ascontiguousarray(numbers).tobytes())
    return {"type": kind, "shape": list(numbers.shape), "data": _encode_base64(stream)}


def _encode_base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
