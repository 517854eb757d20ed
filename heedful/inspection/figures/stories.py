"""Figures of steps that attend: hops over facts, chains of facts, sums over turns, and the table of their weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.inspection.figures.sheet import (
    MapSelection,
    SvgBox,
    draw_bold_text,
    draw_note,
    draw_text,
    estimate_length,
    render_sheet,
    stack_vertically,
)
from heedful.inspection.record import AttentionMap, InspectionRecord, MapAxis
from heedful.inspection.svg import escape_svg_label, make_visible

ProbableChain = tuple[tuple[int, ...], float]
"""What each step chose, and how probable all of it is together."""


def find_likeliest_chains(
    nodes: Float[np.ndarray, "Q K"], edges: Float[np.ndarray, "Q-1 K K"], *, max_chains: int = 3
) -> list[ProbableChain]:
    """Return the most probable sequences of a Markov chain, best first (list Viterbi; Seshadri and Sundberg 1994).
    `nodes` are the probabilities of each choice at each step, `edges` the joint ones of two consecutive steps.

    Args:
        nodes: probability of each choice at each step.
        edges: joint probability of the choices at two consecutive steps.
        max_chains: maximal number of chains.
    """
    best: list[list[ProbableChain]] = [[((key,), float(probability))] for key, probability in enumerate(nodes[0])]
    for step, joint in enumerate(edges.astype(np.float64)):
        marginal = nodes[step].astype(np.float64)
        conditional = np.divide(joint, marginal[:, None], out=np.zeros_like(joint), where=marginal[:, None] > 0)
        best = [
            _keep_best(
                [
                    ((*path, key), probability * conditional[path[-1], key])
                    for chains in best
                    for path, probability in chains
                ],
                max_chains,
            )
            for key in range(joint.shape[1])
        ]
    return _keep_best([chain for chains in best for chain in chains], max_chains)


def _keep_best(chains: list[ProbableChain], max_chains: int) -> list[ProbableChain]:
    """Return the most probable chains, at most `max_chains`, best first; none with probability 0."""
    best = sorted((chain for chain in chains if chain[1] > 0), key=lambda chain: -chain[1])[:max_chains]
    return [(path, float(probability)) for path, probability in best]


_ROW, _CELL = 24.0, 58.0
_LONGEST_ROW = 64
_TILT = 40.0


def find_map(
    record: InspectionRecord, selection: MapSelection, fits: Callable[[AttentionMap], bool], *, description: str
) -> AttentionMap:
    """Return the selected map of the record that satisfies `fits`; the last one unless a layer is given,
    cross-attention first. Raise `DataError` if there is none; its message says what is looked for, the `description`.
    """
    candidates = [
        attention_map
        for attention_map in record.maps
        if fits(attention_map) and attention_map.weights.size and selection.role in (None, attention_map.role)
    ]
    selected = [attention_map for attention_map in candidates if selection.layer in (-1, attention_map.layer)]
    if not selected:
        hint = (
            f"; layers {', '.join(str(attention_map.layer) for attention_map in candidates)} have it"
            if candidates
            else ""
        )
        raise DataError(f"no attention to {description} in this record{hint}")
    return next((attention_map for attention_map in reversed(selected) if attention_map.role == "cross"), selected[-1])


def name_steps(record: InspectionRecord, attention_map: AttentionMap) -> list[str]:
    """Return the names of a map's queries; generated tokens with their probability, such as A(1.00)."""
    tokens = record.get_axis(attention_map.queries).tokens
    if attention_map.queries != "written" or len(record.written) != len(tokens):
        return list(tokens)
    probabilities = [math.exp(token_record.log_probability) for token_record in record.written]
    return [f"{token}({probability:.2f})" for token, probability in zip(tokens, probabilities, strict=True)]


def draw_weight_table(
    texts: Sequence[str],
    steps: Sequence[str],
    weights: Float[np.ndarray, "S T"],
    *,
    marked: Sequence[int] = (),
    selection: MapSelection,
) -> SvgBox:
    """Draw texts below each other with a shaded column of weights for each step; a dot marks the texts known to matter,
    whose indices are `marked`. The selection gives the colours.
    """
    names = [f"● {text}" if index in marked else text for index, text in enumerate(texts)]
    left = max(estimate_length(name, longest=_LONGEST_ROW) for name in names) + 12
    reach = max(estimate_length(step) for step in steps)
    tilted = reach > _CELL - 6
    top = math.sin(math.radians(_TILT)) * reach + 16 if tilted else 20.0
    parts = [draw_text(name, left - 8, top + _ROW * (row + 0.68), anchor="end", longest=_LONGEST_ROW)
             for row, name in enumerate(names)]  # fmt: skip
    largest = float(weights.max()) or 1.0
    for column, step in enumerate(steps):
        x = left + _CELL * column
        turn = f' rotate(-{_TILT:.0f})" text-anchor="start' if tilted else '" text-anchor="middle'
        parts.append(
            f'<text transform="translate({x + _CELL / 2:.1f} '
            f'{top - 7:.1f}){turn}">{escape_svg_label(make_visible(step))}</text>'
        )
        for row, weight in enumerate(weights[column].tolist()):
            fraction = weight / largest
            ink = (
                "#000"
                if selection.ramp.lightness[0]
                + fraction * np.ptp(selection.ramp.lightness) * _get_lightness_direction(selection)
                > 0.6
                else "#fff"
            )
            y = top + _ROW * row
            parts += [
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{_CELL - 1:.1f}" height="{_ROW - 1:.1f}" '
                f'fill="{selection.ramp.get_colour(fraction)}"/>',
                f'<text x="{x + _CELL / 2:.1f}" y="{y + 16:.1f}" font-size="11" text-anchor="middle" '
                f'style="fill:{ink}">{weight:.3f}</text>',
            ]
    below = top + _ROW * len(texts) + 18
    note = [draw_note("● is known to matter", 0, below)] if marked else []
    overhang = math.cos(math.radians(_TILT)) * reach if tilted else 0.0
    width = max(left + _CELL * len(steps) + overhang, 150.0)
    return SvgBox((*parts, *note), width, below + 6)


def _get_lightness_direction(selection: MapSelection) -> int:
    """Return 1 if strong weights are light, -1 if they are dark."""
    low, high = selection.ramp.lightness
    return 1 if high > low else -1


_COLUMN_DISTANCE, _ROW_HEIGHT, _RADIUS, _LONGEST = 150.0, 36.0, 12.0, 48
_MIN_PROBABILITY = 0.01


def find_hops(record: InspectionRecord) -> list[tuple[AttentionMap, int | None]]:
    """Return the longest series of attentions of one query to the same text, in order; empty if nothing looks at a text
    twice. Items are maps with head None, or heads of a summary attention.
    """
    groups: dict[tuple[str, str], list[tuple[AttentionMap, int | None]]] = {}
    for attention_map in record.maps:
        if (
            attention_map.weights.size
            and attention_map.weights.shape[1] == 1
            and record.get_axis(attention_map.keys).kind == "text"
        ):
            hop_list = (
                [(attention_map, head) for head in attention_map.heads]
                if attention_map.role == "summary"
                else [(attention_map, None)]
            )
            groups.setdefault((attention_map.queries, attention_map.keys), []).extend(hop_list)
    longest = max(groups.values(), key=len, default=[])
    return longest if len(longest) > 1 else []


def stack_hops(hop_list: Sequence[tuple[AttentionMap, int | None]]) -> np.ndarray:
    """Return the weights of each hop from `find_hops`, [hops, K]."""
    return np.stack([attention_map.get_head_weights(head)[0] for attention_map, head in hop_list])


def draw_hops(record: InspectionRecord, selection: MapSelection) -> str:
    """Draw as SVG a table of the record's facts, or words, by hops, shaded by weight; `DataError` if it has no hops."""
    hop_list = find_hops(record)
    if not hop_list:
        raise DataError("this record has no hops: no attention in it looks at the same text several times")
    axis = record.get_axis(hop_list[0][0].keys)
    weights = stack_hops(hop_list).clip(0, 1)
    steps = [f"hop {number}" for number in range(1, len(hop_list) + 1)]
    table = draw_weight_table(axis.tokens, steps, weights, marked=axis.marked, selection=selection)
    return render_sheet(table, title=record.title or f"Hops over {axis.name}")


def sum_over_spans(attention_map: AttentionMap, axis: MapAxis, selection: MapSelection) -> np.ndarray:
    """Return the total weight of each query on each span of the keys, [Q, spans]; `axis` is that of the keys, and the
    selection chooses a head.
    """
    weights = selection.select_weights(attention_map)
    return np.stack([weights[:, span.start : span.stop].sum(1) for span in axis.spans], 1)


def draw_turns(record: InspectionRecord, selection: MapSelection) -> str:
    """Draw as SVG the turns of a dialogue below each other, with the total weight of each generated word on each turn
    in the selected map; `DataError` if no map attends to turns.
    """
    attention_map = find_map(
        record,
        selection,
        lambda attention_map: (
            bool(record.get_axis(attention_map.keys).spans) and attention_map.keys != attention_map.queries
        ),
        description="a text with turns",
    )
    axis = record.get_axis(attention_map.keys)
    texts = [f"{span.name}: {' '.join(axis.tokens[span.start : span.stop])}" for span in axis.spans]
    marked_turns = [
        index for index, span in enumerate(axis.spans) if any(span.start <= i < span.stop for i in axis.marked)
    ]
    table = draw_weight_table(
        texts,
        name_steps(record, attention_map),
        sum_over_spans(attention_map, axis, selection),
        marked=marked_turns,
        selection=selection,
    )
    return render_sheet(table, title=selection.describe_map(attention_map))


def draw_chain(record: InspectionRecord, selection: MapSelection) -> str:
    """Draw as SVG the probability of each fact at each step of the selected map's chain, and of pairs at neighbouring
    steps (Kim et al. 2017, figure 4); `DataError` if no map has a chain.
    """
    attention_map = find_map(
        record, selection, lambda attention_map: attention_map.edges is not None, description="a chain of facts"
    )
    assert attention_map.edges is not None
    nodes, axis = selection.select_weights(attention_map), record.get_axis(attention_map.keys)
    edges = (
        attention_map.edges.mean(0)
        if selection.head is None
        else attention_map.edges[attention_map.heads.index(selection.head)]
    )
    best_chains = [
        f"{probability:.3f}  {' → '.join(make_visible(axis.tokens[key]) for key in path)}"
        for path, probability in find_likeliest_chains(nodes, edges)
    ]
    lines = [
        draw_bold_text("most probable chains", 0, 10),
        *(draw_text(line, 0, 20.0 * row + 32, longest=200) for row, line in enumerate(best_chains)),
    ]
    below = SvgBox(
        tuple(lines),
        max(estimate_length(line, longest=200) for line in [*best_chains, "most probable chains"]),
        20.0 * len(best_chains) + 24,
    )
    return render_sheet(
        stack_vertically([_draw_chain_graph(nodes, edges, record.get_axis(attention_map.queries), axis), below]),
        title=record.title or "Chain",
    )


def _draw_chain_graph(nodes: np.ndarray, edges: np.ndarray, steps: MapAxis, facts: MapAxis) -> SvgBox:
    """Draw a circle for each fact at each step, filled by its probability in `nodes`, and lines between neighbouring
    steps by the joint probabilities `edges`.
    """
    names = [f"● {fact}" if index in facts.marked else fact for index, fact in enumerate(facts.tokens)]
    left = max(estimate_length(name, longest=_LONGEST) for name in names) + 34
    parts = [
        draw_note(name, left + _COLUMN_DISTANCE * step, 8, anchor="middle") for step, name in enumerate(steps.tokens)
    ]
    parts += [
        draw_text(name, left - 24, _row_to_y(row) + 4, anchor="end", longest=_LONGEST) for row, name in enumerate(names)
    ]
    for step, start, end in np.argwhere(edges > _MIN_PROBABILITY).tolist():
        probability = float(edges[step, start, end])
        x = left + _COLUMN_DISTANCE * step
        parts.append(
            f'<path class="hue0" stroke="currentColor" stroke-width="{0.5 + 7 * probability:.2f}" '
            f'stroke-opacity="{0.25 + 0.75 * probability:.2f}" d="M{x + _RADIUS:.1f} {_row_to_y(start):.1f}'
            f'L{x + _COLUMN_DISTANCE - _RADIUS:.1f} {_row_to_y(end):.1f}"><title>{probability:.3f}</title></path>'
        )
    for step, row in np.ndindex(*nodes.shape):
        x, probability = left + _COLUMN_DISTANCE * step, float(nodes[step, row])
        parts += [
            f'<circle class="hue0" cx="{x:.1f}" cy="{_row_to_y(row):.1f}" r="{_RADIUS}" fill="currentColor" '
            f'stroke="currentColor" fill-opacity="{probability:.2f}"/>',
            draw_text(
                f"{probability:.2f}",
                x,
                _row_to_y(row) + 4,
                font=10,
                anchor="middle",
                extra='style="fill:#fff"' * (probability > 0.55),
            ),
        ]
    note = [draw_note("● is known to matter", 0, _row_to_y(len(names)))] if facts.marked else []
    reach = max(estimate_length(name, 11) for name in steps.tokens) / 2
    return SvgBox(
        (*parts, *note), left + _COLUMN_DISTANCE * (len(nodes) - 1) + max(_RADIUS, reach), _row_to_y(len(names)) + 4
    )


def _row_to_y(row: int) -> float:
    """Return the vertical position of a row."""
    return 32.0 + _ROW_HEIGHT * row
