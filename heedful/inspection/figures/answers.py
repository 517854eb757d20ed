"""Figures of generated tokens, and of answers: hidden tokens, tags, classes, spans."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
from heedful.inspection.record import GeneratedToken, InspectionRecord, ModelAnswer

_ROW_HEIGHT = 30.0
_BAR_WIDTH = 120.0
_MAX_ALTERNATIVES = 4


def draw_decoding(record: InspectionRecord, _selection: MapSelection) -> str:
    """Draw the generated tokens with their probabilities and alternatives."""
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
        y = _ROW_HEIGHT * (step + 1) - 6
        parts += [
            draw_note(f"{step}", 14, y, anchor="end"),
            draw_bold_text(token.token, left - 8, y, anchor="end"),
            *_draw_bar(math.exp(token.log_probability), left, y),
            draw_note(f"{total:.2f}", left + _BAR_WIDTH + 76, y, anchor="end"),
            *_draw_alternatives(token, left + _BAR_WIDTH + 96, y, column_widths),
        ]
    width = left + _BAR_WIDTH + 96 + sum(column_widths)
    return render_sheet(
        SvgBox(tuple(parts), width, _ROW_HEIGHT * len(record.written) + 12), title="The written text, step by step"
    )


def draw_answers(record: InspectionRecord, _selection: MapSelection) -> str:
    """Draw each answer with its probability and alternatives."""
    if not record.answers:
        raise DataError("this record has no answers about the text; for models that write, take --view decoding")
    boxes = [_draw_group(about, group) for about, group in record.answers_by_question.items()]
    return render_sheet(stack_vertically(boxes, gap=36), title="What the model predicts for the text")


def _draw_group(about: str, answers: Sequence[ModelAnswer]) -> SvgBox:
    """Draw the answers to one kind of question."""
    left = max((estimate_length(answer.subject) for answer in answers if answer.subject), default=0.0)
    start = left + 14 if left else 0.0
    answer_column = start + max(estimate_length(answer.answer_text) for answer in answers) + 14
    column_widths = _measure_columns(answers)
    parts = [draw_bold_text(about, 0, 10, longest=100)]
    if any(answer.options for answer in answers):
        parts.append(draw_note("probability, and other possible answers", answer_column, 26))
    for row, answer in enumerate(answers):
        y = _ROW_HEIGHT * (row + 1) + 20
        parts += [draw_text(answer.subject, left, y, anchor="end")] if answer.subject else []
        parts.append(draw_bold_text(answer.answer_text, start, y))
        parts += _draw_bar(answer.options[0].probability, answer_column, y) if answer.options else []
        parts += _draw_alternatives(answer, answer_column + _BAR_WIDTH + 20, y, column_widths)
    width = max(
        answer_column + _BAR_WIDTH + 20 + sum(column_widths), answer_column + estimate_length("x" * 47, 11, longest=60)
    )
    return SvgBox(tuple(parts), max(width, estimate_length(about, longest=100)), _ROW_HEIGHT * len(answers) + 30)


def _draw_bar(probability: float, x: float, y: float) -> list[str]:
    """Draw a bar of a probability."""
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
    """Draw the alternatives and their probabilities in columns of the given widths."""
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
    """Return the widths of the columns of alternatives."""
    lists = [
        [estimate_length(name, 12) for name, _ in prediction.other_options[:_MAX_ALTERNATIVES]] for prediction in rows
    ]
    return [max(row[index] for row in lists if len(row) > index) + 64 for index in range(max(map(len, lists)))]
