"""Figures of generated tokens, answers, the beam search tree and position encodings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.inspection.figures.sheet import (
    MapSelection,
    SvgBox,
    draw_bold_text,
    draw_heading,
    draw_note,
    draw_text,
    estimate_length,
    render_sheet,
    stack_horizontally,
    stack_vertically,
)
from heedful.inspection.heatmap import ColourRamp, map_colours
from heedful.inspection.record import BeamNode, GeneratedToken, InspectionRecord, ModelAnswer, PositionEncoding
from heedful.inspection.svg import draw_image

_NEGATIVE_RAMP = ColourRamp((0.97, 0.42), ((0.0, 0.0), (-0.02, -0.08), (-0.01, -0.15)))
_POSITIVE_RAMP = ColourRamp((0.97, 0.48), ((0.0, 0.0), (0.06, 0.09), (0.14, 0.09)))

_ROW_HEIGHT = 36.0
_BOLD_FACTOR = 1.25  # bold letters are wider
_MAX_BRANCHES = 60


def draw_positions(record: InspectionRecord, _selection: MapSelection) -> str:
    """Draw each position encoding of the record as a heat map in SVG, with the dot products between positions."""
    if not record.encodings:
        raise DataError("this record has no vectors of positions: its model adds none, or is recurrent")
    return render_sheet(
        stack_vertically([_draw_encoding(position_encoding) for position_encoding in record.encodings], gap=36),
        title="How the model distinguishes positions",
    )


def _draw_encoding(encoding: PositionEncoding) -> SvgBox:
    """Draw a position encoding as a heat map, and beside it the dot products between positions unless it is of
    distances.
    """
    name = draw_heading(encoding.name, width=estimate_length(encoding.name, longest=100), longest=100)
    kind = "distance" if encoding.relative else "position"
    panels = [_draw_panel(encoding.vectors, encoding.places.tolist(), (kind, "dimension"))]
    if not encoding.relative and len(encoding.places) > 1:
        products = encoding.vectors.astype(np.float64) @ encoding.vectors.T
        panels.append(_draw_panel(products, encoding.places.tolist(), (kind, "dot product with position"), square=True))
    return stack_vertically([name, stack_horizontally(panels)], gap=16)


def _draw_panel(
    numbers: Float[np.ndarray, "N M"], row_labels: Sequence[int], names: tuple[str, str], *, square: bool = False
) -> SvgBox:
    """Draw a heat map around zero with numbered rows and a scale; `names` are those of rows and columns. If it is
    `square`, the columns have the same numbers as the rows.
    """
    rows, columns = numbers.shape
    height = float(np.clip(8 * rows, 120, 320))
    width = height if square else float(np.clip(6 * columns, 120, 460))
    limit = float(np.abs(numbers).max()) or 1.0
    left, top = 66.0, 18.0
    parts = [
        draw_note(f"{names[0]} ↓", left - 6, 10, anchor="end"),
        draw_note(f"{names[1]} →", left, 10),
        draw_image(map_diverging_colours(numbers / limit), x=left, y=top, width=width, height=height),
    ]
    for row in sorted({0, rows // 2, rows - 1}):
        parts.append(draw_note(f"{row_labels[row]}", left - 6, top + height * (row + 0.5) / rows + 4, anchor="end"))
    for column in sorted({0, columns - 1}):
        label = row_labels[column] if square else column
        parts.append(draw_note(f"{label}", left + width * (column + 0.5) / columns, top + height + 15, anchor="middle"))
    bar = top + height + 26
    scale = map_diverging_colours(np.linspace(-1, 1, 101)[None])
    parts.append(draw_image(scale, x=left, y=bar, width=120, height=8))
    for share, value in ((0.0, -limit), (0.5, 0.0), (1.0, limit)):
        parts.append(draw_note(f"{value:.3g}", left + 120 * share, bar + 22, anchor="middle"))
    return SvgBox(tuple(parts), left + max(width, estimate_length(names[1], 11, longest=40), 130) + 10, bar + 28)


def map_diverging_colours(numbers: Float[np.ndarray, "N M"]) -> np.ndarray:
    """Return colours for numbers from -1 to 1: blue below zero, orange above."""
    return np.where(
        (numbers < 0)[..., None], map_colours(-numbers, _NEGATIVE_RAMP), map_colours(numbers, _POSITIVE_RAMP)
    )


def draw_tree(record: InspectionRecord, _selection: MapSelection) -> str:
    """Draw the beam search tree of the record as SVG, from left to right; the returned text is bold.

    Pruned branches are faint; in a large tree they are left out.
    """
    if not record.tree:
        raise DataError("this record has no tree: its text was given, or written without a beam")
    branches, left_out = _select_branches(record.tree)
    steps, rows = _compute_layout(branches)
    widths = [0.0] * (max(steps.values()) + 1)
    for number, step in steps.items():
        widths[step] = max(
            widths[step],
            estimate_length(_get_label(branches[number])),
            estimate_length(_format_numbers(branches[number]), 11),
        )
    starts = np.concatenate([[0.0], np.cumsum([_BOLD_FACTOR * width + 30 for width in widths])])
    parts = []
    for number, branch in enumerate(branches):
        if number in steps:
            x, y = float(starts[steps[number]]), _ROW_HEIGHT * rows[number] + 14
            if branch.parent >= 0:
                parent = branches[branch.parent]
                end = float(starts[steps[branch.parent]]) + _BOLD_FACTOR * estimate_length(_get_label(parent))
                parts.append(_draw_edge(branch, (end, _ROW_HEIGHT * rows[branch.parent] + 10), (x - 4, y - 4)))
            parts.append(_draw_node(branch, x, y))
    legend = (
        "under each token: log-probability of the text up to it, in nats; ended texts: the score they are ranked by"
    )
    if left_out:
        legend += f"; {left_out:,} pruned branches are left out"
    height = _ROW_HEIGHT * (max(rows.values()) + 1) + 22
    width = max(float(starts[-1]), 0.62 * 11 * len(legend))
    return render_sheet(SvgBox((*parts, draw_note(legend, 0, height - 4)), width, height), title="The beam's tree")


def _select_branches(branches: Sequence[BeamNode]) -> tuple[list[BeamNode], int]:
    """Return the nodes of the tree to draw, and how many are left out: all nodes if there are at most 60, else only
    those that were not pruned, with the indices of their parents adjusted.
    """
    if len(branches) <= _MAX_BRANCHES:
        return list(branches), 0
    kept_indices = [number for number, branch in enumerate(branches) if branch.fate != "pruned"]
    new_indices = {number: index for index, number in enumerate(kept_indices)} | {-1: -1}
    selected = [replace(branches[number], parent=new_indices[branches[number].parent]) for number in kept_indices]
    return selected, len(branches) - len(kept_indices)


def _compute_layout(branches: Sequence[BeamNode]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the depth and the row of each node of the tree, by its index: the best child has its parent's row, others
    a new one.
    """
    children: dict[int, list[int]] = {}
    for number in sorted(range(len(branches)), key=lambda i: (not branches[i].best, -branches[i].log_probability)):
        children.setdefault(branches[number].parent, []).append(number)
    steps: dict[int, int] = {}
    rows: dict[int, int] = {}
    free = 0
    waiting = list(reversed(children.get(-1, [])))
    while waiting:
        number = waiting.pop()
        parent = branches[number].parent
        follows = parent >= 0 and children[parent][0] == number
        steps[number] = 0 if parent < 0 else steps[parent] + 1
        rows[number] = rows[parent] if follows else free
        free += not follows
        waiting.extend(reversed(children.get(number, [])))
    return steps, rows


def _get_label(branch: BeamNode) -> str:
    """Return the token of a node, or "start" for the root."""
    return branch.token if branch.parent >= 0 else "start"


def _format_numbers(branch: BeamNode) -> str:
    """Format the log-probability and score of a node."""
    score = "" if branch.score is None else f", score {branch.score:.2f}"
    return f"{branch.log_probability:.2f}{score}"


def _draw_edge(branch: BeamNode, start: tuple[float, float], end: tuple[float, float]) -> str:
    """Draw a curve from a node's parent at `start` to the node at `end`; strong if it is part of the returned text,
    dashed if the node was pruned.
    """
    (x, y), (to_x, to_y) = start, end
    middle = (x + to_x) / 2
    attributes = 'class="hue0" stroke-width="2.5"' if branch.best else 'class="hue7" stroke-width="1.2"'
    dash_attributes = ' stroke-opacity="0.4" stroke-dasharray="3 3"' if branch.fate == "pruned" else ""
    course = f"M{x + 3:.1f} {y:.1f}C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
    return f'<path {attributes}{dash_attributes} fill="none" stroke="currentColor" d="{course}"/>'


def _draw_node(branch: BeamNode, x: float, y: float) -> str:
    """Draw a node of the tree at (x, y): its token, its numbers below, and its fate as a tooltip."""
    weight = 'font-weight="700"' if branch.best else 'class="faint"' if branch.fate == "pruned" else ""
    fates = {"lived": "went on", "ended": "ended", "pruned": "was pruned"}
    below = draw_note(_format_numbers(branch), x, y + 13) if branch.parent >= 0 else ""
    tip = f"<title>{fates[branch.fate]}</title>"
    return f"<g>{tip}{draw_text(_get_label(branch), x, y, extra=weight)}{below}</g>"


_ANSWER_HEIGHT = 30.0
_BAR_WIDTH = 120.0
_MAX_ALTERNATIVES = 4


def draw_decoding(record: InspectionRecord, _selection: MapSelection) -> str:
    """Draw the generated tokens of the record as SVG, with their probabilities and alternatives."""
    if not record.written:
        raise DataError("this record has no written text, so there is no decoding to show")
    left = max(estimate_length(token.token) for token in record.written) + 40
    column_widths = _measure_columns(record.written)
    parts = [
        draw_note("token", left - 8, 0, anchor="end"),
        draw_note("probability", left, 0),
        draw_note("total, nats", left + _BAR_WIDTH + 76, 0, anchor="end"),
        draw_note("other possible tokens", left + _BAR_WIDTH + 96, 0),
    ]
    total = 0.0
    for step, token in enumerate(record.written):
        total += token.log_probability
        y = _ANSWER_HEIGHT * (step + 1) - 6
        parts += [
            draw_note(f"{step}", 14, y, anchor="end"),
            draw_bold_text(token.token, left - 8, y, anchor="end"),
            *_draw_bar(math.exp(token.log_probability), left, y),
            draw_note(f"{total:.2f}", left + _BAR_WIDTH + 76, y, anchor="end"),
            *_draw_alternatives(token, left + _BAR_WIDTH + 96, y, column_widths),
        ]
    width = left + _BAR_WIDTH + 96 + sum(column_widths)
    return render_sheet(
        SvgBox(tuple(parts), width, _ANSWER_HEIGHT * len(record.written) + 12), title="The written text, step by step"
    )


def draw_answers(record: InspectionRecord, _selection: MapSelection) -> str:
    """Draw each answer in the record as SVG, with its probability and alternatives."""
    if not record.answers:
        raise DataError("this record has no answers about the text; for models that write, take --view decoding")
    boxes = [_draw_group(about, group) for about, group in record.answers_by_question.items()]
    return render_sheet(stack_vertically(boxes, gap=36), title="What the model predicts for the text")


def _draw_group(about: str, answers: Sequence[ModelAnswer]) -> SvgBox:
    """Draw the answers to one kind of question, whose name `about` is the heading."""
    left = max((estimate_length(answer.subject) for answer in answers if answer.subject), default=0.0)
    start = left + 14 if left else 0.0
    answer_column = start + max(estimate_length(answer.answer_text) for answer in answers) + 14
    column_widths = _measure_columns(answers)
    parts = [draw_bold_text(about, 0, 10, longest=100)]
    if any(answer.options for answer in answers):
        parts.append(draw_note("probability, and other possible answers", answer_column, 26))
    for row, answer in enumerate(answers):
        y = _ANSWER_HEIGHT * (row + 1) + 20
        parts += [draw_text(answer.subject, left, y, anchor="end")] if answer.subject else []
        parts.append(draw_bold_text(answer.answer_text, start, y))
        parts += _draw_bar(answer.options[0].probability, answer_column, y) if answer.options else []
        parts += _draw_alternatives(answer, answer_column + _BAR_WIDTH + 20, y, column_widths)
    width = max(
        answer_column + _BAR_WIDTH + 20 + sum(column_widths), answer_column + estimate_length("x" * 47, 11, longest=60)
    )
    return SvgBox(tuple(parts), max(width, estimate_length(about, longest=100)), _ANSWER_HEIGHT * len(answers) + 30)


def _draw_bar(probability: float, x: float, y: float) -> list[str]:
    """Draw a bar for a probability, with the number in it; x is its left end and y the line of text."""
    attributes = f'x="{x:.1f}" y="{y - 11:.1f}" height="14" rx="3"'
    return [
        f'<rect class="faint" fill-opacity="0.16" {attributes} width="{_BAR_WIDTH:.0f}"/>',
        f'<rect class="hue0" fill="currentColor" fill-opacity="0.45" {attributes} '
        f'width="{_BAR_WIDTH * min(1.0, probability):.1f}"/>',
        draw_text(f"{probability:.3f}", x + 5, y, font=11),
    ]


def _draw_alternatives(
    prediction: GeneratedToken | ModelAnswer, x: float, y: float, column_widths: Sequence[float]
) -> list[str]:
    """Draw the alternatives to a token or answer, with their probabilities, in columns of the given widths from (x, y)
    on.
    """
    parts = []
    for (name, probability), column_width in zip(
        prediction.other_options[:_MAX_ALTERNATIVES], column_widths, strict=False
    ):
        parts += [
            draw_text(name, x, y, font=12),
            draw_note(f"{probability:.3f}", x + column_width - 24, y, anchor="end"),
        ]
        x += column_width
    return parts


def _measure_columns(rows: Sequence[GeneratedToken | ModelAnswer]) -> list[float]:
    """Return the widths of the columns of alternatives, one for each rank, so that those of all rows fit."""
    lists = [
        [estimate_length(name, 12) for name, _ in prediction.other_options[:_MAX_ALTERNATIVES]] for prediction in rows
    ]
    return [max(row[index] for row in lists if len(row) > index) + 64 for index in range(max(map(len, lists)))]
