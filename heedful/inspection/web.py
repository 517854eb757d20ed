"""A record as one web page that shows it from all sides and needs nothing else: no network, no server."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np

from heedful.attention.probe import Role
from heedful.errors import DataError
from heedful.inspection.flow import Side, graph_of, rollout
from heedful.inspection.heads import measures_of
from heedful.inspection.packing import fine, pack_bits, pack_numbers, pack_weights
from heedful.inspection.record import Axis, Embedded, Encoding, Map, Record, Walk

_MODULES = "heedful/"
"""What the names of the page's modules begin with."""


def viewer_html(record: Record) -> str:
    """The page. Its policy forbids to load anything; scripts are modules inside the page itself."""
    name = escape(record.title or " ".join(record.axes[0].tokens) or record.model)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            "style-src 'unsafe-inline'; script-src 'unsafe-inline' data:; img-src data: blob:\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{name}</title>",
            f"<style>{_styles()}</style>",
            f'<script type="importmap">{_script(_import_map())}</script>',
            f'<script type="application/json" id="record">{_script(payload(record))}</script>',
            "</head><body>",
            f'<main id="heedful"><h1>{name}</h1><noscript>{_PLAIN}</noscript></main>',
            f'<script type="module">import "{_MODULES}main.js";</script>',
            "</body></html>\n",
        ]
    )


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
    """The record as the page reads it."""
    rich = fine(sum(each.weights.size for each in record.maps))
    return {
        "model": record.model,
        "notes": list(record.notes),
        "axes": [_axis(axis) for axis in record.axes],
        "maps": [_map(each, rich=rich) for each in record.maps],
        "overall": {side: _overall(record, side) for side in _sides(record)},
        "embedded": [_embedded(each) for each in record.embedded],
        "written": [
            {
                "token": each.token,
                "logp": each.log_probability,
                "alternatives": [[other.token, other.log_probability] for other in each.alternatives],
            }
            for each in record.written
        ],
        "answers": [
            {
                "about": each.about,
                "subject": each.subject,
                "place": each.place,
                "number": each.number,
                "options": [[option.name, option.probability, option.place] for option in each.options],
            }
            for each in record.answers
        ],
        "tree": [
            {
                "parent": branch.parent,
                "token": branch.token,
                "logp": branch.log_probability,
                "score": branch.score,
                "fate": branch.fate,
                "best": branch.best,
            }
            for branch in record.tree
        ],
        "encodings": [_encoding(each) for each in record.encodings],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    return {"name": axis.name, "tokens": list(axis.tokens), "kind": axis.kind, "size": axis.size}


def _map(each: Map, *, rich: bool) -> dict[str, Any]:
    return {
        "path": each.path,
        "role": each.role,
        "layer": each.layer,
        "heads": list(each.heads),
        "queries": each.queries,
        "keys": each.keys,
        "weights": pack_weights(each.weights, fine=rich),
        "visible": pack_bits(each.visible),
        "measures": _measures(each),
        "walk": None if each.walk is None else _walk(each.walk),
    }


def _measures(each: Map) -> list[dict[str, float | bool | None]]:
    """Of every head, and last of the mean over heads; null where nothing can be measured."""
    found = measures_of(replace(each, weights=np.concatenate((each.weights, each.mean[None]))))
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


def _walk(walk: Walk) -> dict[str, Any]:
    arrays = ("queries", "keys", "values", "scores", "contexts", "inputs", "outputs")
    return {
        "scale": walk.scale,
        "bias": None if walk.bias is None else pack_numbers(walk.bias),
        **{name: pack_numbers(getattr(walk, name)) for name in arrays},
    }


def _embedded(each: Embedded) -> dict[str, Any]:
    return {
        "side": each.side,
        "axis": each.axis,
        "words": pack_numbers(each.words),
        "places": None if each.places is None else pack_numbers(each.places),
        "segments": None if each.segments is None else pack_numbers(each.segments),
    }


def _encoding(each: Encoding) -> dict[str, Any]:
    return {
        "name": each.name,
        "places": each.places.tolist(),
        "vectors": pack_numbers(each.vectors),
        "relative": each.relative,
    }


def _script(value: object) -> str:
    """JSON that can stand inside a script element whatever its strings hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _import_map() -> dict[str, dict[str, str]]:
    """Modules by their names, each as a data URL."""
    return {"imports": {_MODULES + name: f"data:text/javascript;base64,{code}" for name, code in _modules()}}


def _modules() -> Iterator[tuple[str, str]]:
    for file in sorted(_folder().iterdir(), key=lambda each: each.name):
        if file.name.endswith(".js"):
            yield file.name, base64.b64encode(file.read_bytes()).decode("ascii")


def _styles() -> str:
    """What the page looks like, then what single views do."""
    return "".join((_folder() / name).read_text(encoding="utf-8") for name in ("style.css", "views.css"))


def _folder() -> Traversable:
    return resources.files("heedful.inspection") / "viewer"
