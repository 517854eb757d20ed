"""Pictures of attention to stories and dialogues: hops over facts, chains of facts, sums over turns."""

from __future__ import annotations

import numpy as np

from heedful.errors import DataError
from heedful.inspection.chain import likeliest
from heedful.inspection.figures.looking import fitting, step_names, weight_table
from heedful.inspection.figures.sheet import Box, Chosen, bold, faint, length, sheet, stacked, words
from heedful.inspection.lettering import visible
from heedful.inspection.record import Axis, Map, Record

_APART, _ROW, _RADIUS, _LONGEST = 150.0, 36.0, 12.0, 48
_FAINTEST = 0.01


def hops_of(record: Record) -> list[tuple[Map, int | None]]:
    """The looks of one query at the same text, one after the other: maps, or heads of a summary; the most there are."""
    groups: dict[tuple[str, str], list[tuple[Map, int | None]]] = {}
    for each in record.maps:
        if each.weights.size and each.weights.shape[1] == 1 and record.axis(each.keys).kind == "text":
            looks = [(each, head) for head in each.heads] if each.role == "summary" else [(each, None)]
            groups.setdefault((each.queries, each.keys), []).extend(looks)
    longest = max(groups.values(), key=len, default=[])
    return longest if len(longest) > 1 else []


def hops(record: Record, chosen: Chosen) -> str:
    """A table of facts, or words, and hops, shaded by weight."""
    looks = hops_of(record)
    if not looks:
        raise DataError("no hops in this record: nothing in it looks at the same text several times")
    axis = record.axis(looks[0][0].keys)
    weights = np.stack([(each.mean if head is None else each.head(head))[0] for each, head in looks]).clip(0, 1)
    steps = [f"hop {number}" for number in range(1, len(looks) + 1)]
    table = weight_table(axis.tokens, steps, weights, marked=axis.marked, chosen=chosen)
    return sheet(table, title=record.title or f"Hops over {axis.name}")


def span_sums(each: Map, axis: Axis, chosen: Chosen) -> np.ndarray:
    """How much each query takes from each span of the keys: [Q, spans]."""
    weights = chosen.weights_of(each)
    return np.stack([weights[:, span.start : span.stop].sum(1) for span in axis.spans], 1)


def turns(record: Record, chosen: Chosen) -> str:
    """The turns of a dialogue below each other, and how much each word of the answer took from each."""
    each = fitting(record, chosen, lambda each: bool(record.axis(each.keys).spans) and each.keys != each.queries,
                   what="a text with turns")  # fmt: skip
    axis = record.axis(each.keys)
    texts = [f"{span.name}: {' '.join(axis.tokens[span.start : span.stop])}" for span in axis.spans]
    known = [place for place, span in enumerate(axis.spans) if any(span.start <= i < span.stop for i in axis.marked)]
    table = weight_table(texts, step_names(record, each), span_sums(each, axis, chosen), marked=known, chosen=chosen)
    return sheet(table, title=chosen.name_of(each))


def chain(record: Record, chosen: Chosen) -> str:
    """How probable each fact is at each step of a chain, and each two of neighbours (Kim et al. 2017, figure 4)."""
    each = fitting(record, chosen, lambda each: each.edges is not None, what="a chain of facts")
    assert each.edges is not None
    nodes, axis = chosen.weights_of(each), record.axis(each.keys)
    edges = each.edges.mean(0) if chosen.head is None else each.edges[each.heads.index(chosen.head)]
    best = [
        f"{chance:.3f}  {' → '.join(visible(axis.tokens[key]) for key in path)}"
        for path, chance in likeliest(nodes, edges)
    ]
    lines = [
        bold("most probable chains", 0, 10),
        *(words(line, 0, 20.0 * row + 32, longest=200) for row, line in enumerate(best)),
    ]
    below = Box(
        tuple(lines), max(length(line, longest=200) for line in [*best, "most probable chains"]), 20.0 * len(best) + 24
    )
    return sheet(stacked([_chain(nodes, edges, record.axis(each.queries), axis), below]), title=record.title or "Chain")


def _chain(nodes: np.ndarray, edges: np.ndarray, steps: Axis, facts: Axis) -> Box:
    names = [f"● {fact}" if place in facts.marked else fact for place, fact in enumerate(facts.tokens)]
    left = max(length(name, longest=_LONGEST) for name in names) + 34
    parts = [faint(name, left + _APART * step, 8, anchor="middle") for step, name in enumerate(steps.tokens)]
    parts += [words(name, left - 24, _y(row) + 4, anchor="end", longest=_LONGEST) for row, name in enumerate(names)]
    for step, start, end in np.argwhere(edges > _FAINTEST).tolist():
        chance = float(edges[step, start, end])
        x = left + _APART * step
        parts.append(
            f'<path class="hue0" stroke="currentColor" stroke-width="{0.5 + 7 * chance:.2f}" '
            f'stroke-opacity="{0.25 + 0.75 * chance:.2f}" d="M{x + _RADIUS:.1f} {_y(start):.1f}'
            f'L{x + _APART - _RADIUS:.1f} {_y(end):.1f}"><title>{chance:.3f}</title></path>'
        )
    for step, row in np.ndindex(*nodes.shape):
        x, chance = left + _APART * step, float(nodes[step, row])
        parts += [
            f'<circle class="hue0" cx="{x:.1f}" cy="{_y(row):.1f}" r="{_RADIUS}" fill="currentColor" '
            f'stroke="currentColor" fill-opacity="{chance:.2f}"/>',
            words(
                f"{chance:.2f}", x, _y(row) + 4, font=10, anchor="middle", extra='style="fill:#fff"' * (chance > 0.55)
            ),
        ]
    note = [faint("● is known to matter", 0, _y(len(names)))] if facts.marked else []
    reach = max(length(name, 11) for name in steps.tokens) / 2
    return Box((*parts, *note), left + _APART * (len(nodes) - 1) + max(_RADIUS, reach), _y(len(names)) + 4)


def _y(row: int) -> float:
    return 32.0 + _ROW * row
