"""Figures of the numbers inside a model: one head step by step, and the sums of vectors that enter the layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.inspection.figures.sheet import (
    MapSelection,
    SvgBox,
    draw_heading,
    draw_note,
    draw_text,
    estimate_length,
    render_sheet,
    stack_vertically,
)
from heedful.inspection.figures.texts import map_diverging_colours
from heedful.inspection.record import AttentionMap, AttentionSteps, EmbeddedTokens, InspectionRecord
from heedful.inspection.svg import draw_image

_ROW, _NUMBER_WIDTH, _STRIP_WIDTH, _GAP = 21.0, 62.0, 132.0, 14.0
_MAX_TOKENS = 16
"""Tokens of a table; more would not be read."""


def draw_steps(record: InspectionRecord, selection: MapSelection) -> str:
    """Draw how one head computes its output for some of its queries, in numbers and as SVG: for each key q · k, the
    scaled and masked score, the weight and the value, and below them the weighted sum (Vaswani et al. 2017, eq. 1).

    Without a head in the selection it is the first one. A table is drawn for each query up to four, in even steps.
    """
    attention_map = selection.select_map(record)
    if attention_map.walk is None:
        raise DataError(f"{attention_map.name}: its queries, keys and values were not recorded; inspect with detail")
    head = attention_map.heads[0] if selection.head is None else selection.head
    queries = record.get_axis(attention_map.queries).tokens
    places = sorted({*np.linspace(0, len(queries) - 1, min(4, len(queries))).astype(int).tolist()})
    boxes = [draw_query_steps(record, attention_map, head=head, query=place) for place in places]
    return render_sheet(stack_vertically(boxes, gap=34), title=f"{attention_map.name}, head {head}, step by step")


def draw_query_steps(record: InspectionRecord, attention_map: AttentionMap, *, head: int, query: int) -> SvgBox:
    """Draw the table of one query of a head (see `draw_steps`); `query` is the place of its token."""
    assert attention_map.walk is not None, "the steps were recorded"
    index, walk = attention_map.heads.index(head), attention_map.walk
    token = record.get_axis(attention_map.queries).tokens[query]
    keys = record.get_axis(attention_map.keys).tokens[:_MAX_TOKENS]
    visible, weights = attention_map.visible[query], attention_map.weights[index, query]
    limit = float(np.abs(walk.values[index]).max()) or 1.0
    left = max(estimate_length(key) for key in (*keys, "output")) + 10
    columns = [left + _NUMBER_WIDTH * place for place in range(4)]
    strip = columns[-1] + _GAP
    note = f"q · k / √{walk.queries.shape[-1]}, -∞ where the query may not look; softmax; Σ weight · value"
    heading = draw_heading(f"query “{token}”", [note], width=strip + _STRIP_WIDTH, longest=60)
    top = heading.height + 24
    parts = [*heading.parts]
    for name, x in zip(("q · k", "scaled", "weight"), columns[1:], strict=True):
        parts.append(draw_note(name, x, top - 8, anchor="end"))
    parts.append(draw_note("value", strip, top - 8))
    for row, key in enumerate(keys):
        y = top + _ROW * row + 14
        numbers = _format_scores(walk, index, query, row, is_visible=bool(visible[row]))
        parts.append(draw_text(key, left - 10, y, anchor="end"))
        parts += [draw_text(text, x, y, anchor="end") for text, x in zip(numbers, columns[1:], strict=False)]
        parts.append(_draw_bar(float(weights[row]), columns[3], y))
        parts.append(_draw_strip(walk.values[index, row] / limit, strip, y - 13))
    below = top + _ROW * len(keys) + 8
    parts.append(draw_text("output", left - 10, below + 14, anchor="end", extra='font-weight="600"'))
    parts.append(_draw_strip(walk.contexts[index, query] / limit, strip, below + 1))
    return SvgBox(tuple(parts), strip + _STRIP_WIDTH, below + _ROW)


def _format_scores(walk: AttentionSteps, head: int, query: int, key: int, *, is_visible: bool) -> tuple[str, str]:
    """Format the product of a query and a key, and the score that softmax reads."""
    product = float(walk.queries[head, query] @ walk.keys[head, key]) if _is_product(walk) else None
    score = float(walk.scores[head, query, key])
    return ("-" if product is None else f"{product:.2f}"), (f"{score:.2f}" if is_visible else "-∞")


def _is_product(walk: AttentionSteps) -> bool:
    """Whether queries and keys have the same width, so that their product is a number."""
    return bool(walk.queries.shape[-1] == walk.keys.shape[-1])


def _draw_bar(weight: float, right: float, y: float) -> str:
    """Draw a weight as a number over a bar that grows to the left."""
    width = (_NUMBER_WIDTH - 8) * float(np.clip(weight, 0, 1))
    bar = (
        f'<rect class="hue0" fill="currentColor" fill-opacity="0.3" x="{right - width:.1f}" y="{y - 13:.1f}" '
        f'width="{width:.1f}" height="17"/>'
    )
    return bar + draw_text(f"{weight:.2f}", right, y, anchor="end")


def _draw_strip(vector: Float[np.ndarray, " d"], x: float, y: float) -> str:
    """Draw a vector with entries from -1 to 1 as a strip of colours."""
    return draw_image(map_diverging_colours(vector[None]), x=x, y=y, width=_STRIP_WIDTH, height=16)


def draw_inputs(record: InspectionRecord, _selection: MapSelection) -> str:
    """Draw as SVG what enters the first layer: for each token the vectors of the word, its position and its segment,
    and their sum (Devlin et al. 2019, figure 2).
    """
    if not record.embedded:
        raise DataError("this record has no embeddings of tokens")
    boxes = [_draw_embedded(record, embedded) for embedded in record.embedded]
    return render_sheet(stack_vertically(boxes, gap=36), title="The sum of vectors that enters the first layer")


def _draw_embedded(record: InspectionRecord, embedded: EmbeddedTokens) -> SvgBox:
    """Draw the vectors of the tokens of one side, a column of strips for each kind of vector and for the sum."""
    tokens = record.get_axis(embedded.axis).tokens[:_MAX_TOKENS]
    kinds = {
        "word": embedded.words,
        "position": embedded.places,
        "segment": embedded.segments,
        "factors": embedded.factors,
    }
    vectors = {name: part[: len(tokens)] for name, part in kinds.items() if part is not None}
    vectors["sum"] = np.sum(list(vectors.values()), axis=0)
    limit = max(float(np.abs(part).max()) for part in vectors.values()) or 1.0
    left = max(estimate_length(token) for token in tokens) + 10
    step = _STRIP_WIDTH + 22
    parts = [draw_note(embedded.side, left - 10, 10, anchor="end")]
    for column, (name, part) in enumerate(vectors.items()):
        x = left + step * column
        sign = "" if column == 0 else "= " if name == "sum" else "+ "
        parts.append(draw_note(f"{sign}{name}", x, 10))
        parts += [_draw_strip(vector / limit, x, 20 + _ROW * row) for row, vector in enumerate(part)]
    parts += [draw_text(token, left - 10, 33 + _ROW * row, anchor="end") for row, token in enumerate(tokens)]
    return SvgBox(tuple(parts), left + step * len(vectors), 20 + _ROW * len(tokens))


def draw_vector_map(
    names: Sequence[str], points: Float[np.ndarray, "N 2"], *, hues: Sequence[int], title: str, notes: Sequence[str]
) -> str:
    """Draw points of a plane with their names as SVG, such as two principal components of vectors.

    Args:
        names: name of each point.
        points: x and y of each point, in any unit; both axes have the same scale.
        hues: number of the colour of each point.
        title: heading.
        notes: lines below the heading.
    """
    width, height = 560.0, 380.0
    low, high = points.min(0), points.max(0)
    scale = float(np.min(np.array([width, height]) / np.maximum(high - low, 1e-9)))
    heading = draw_heading("", notes, width=width)
    parts = [*heading.parts]
    for name, (x, y), hue in zip(names, (points - low) * scale, hues, strict=True):
        cx, cy = float(x), heading.height + 20 + height - float(y)
        parts.append(f'<circle class="hue{hue}" fill="currentColor" cx="{cx:.1f}" cy="{cy:.1f}" r="4.5"/>')
        parts.append(draw_text(name, cx + 8, cy + 4, font=12, longest=48))
    reach = max(estimate_length(name, 12, longest=48) for name in names)
    return render_sheet(SvgBox(tuple(parts), width + reach, heading.height + height + 30), title=title)
