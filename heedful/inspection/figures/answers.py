"""Pictures of what a model writes token by token, or says of a text: hidden tokens, tags, classes, parts of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from heedful.errors import DataError
from heedful.inspection.figures.sheet import Box, Chosen, bold, faint, length, sheet, stacked, words
from heedful.inspection.record import Answer, Record, Written

_ROW = 30.0
_BAR = 120.0
_OTHERS = 4


def decoding(record: Record, _chosen: Chosen) -> str:
    """What was written, token by token: its probability, and what else could have stood there."""
    if not record.written:
        raise DataError("nothing was written in this record, so there is no decoding to show")
    left = max(length(each.token) for each in record.written) + 40
    rooms = _rooms(record.written)
    parts = [
        faint("token", left - 8, 0, anchor="end"),
        faint("probability", left, 0),
        faint("total, nats", left + _BAR + 76, 0, anchor="end"),
        faint("what else could have stood there", left + _BAR + 96, 0),
    ]
    total = 0.0
    for step, each in enumerate(record.written):
        total += each.log_probability
        y = _ROW * (step + 1) - 6
        parts += [
            faint(f"{step}", 14, y, anchor="end"),
            bold(each.token, left - 8, y, anchor="end"),
            *_bar(math.exp(each.log_probability), left, y),
            faint(f"{total:.2f}", left + _BAR + 76, y, anchor="end"),
            *_others(each, left + _BAR + 96, y, rooms),
        ]
    width = left + _BAR + 96 + sum(rooms)
    return sheet(Box(tuple(parts), width, _ROW * len(record.written) + 12), title="What was written, step by step")


def answers(record: Record, _chosen: Chosen) -> str:
    """Each answer with its probability, and what else could have been said."""
    if not record.answers:
        raise DataError("nothing was said of the text in this record; models that write show it with --view decoding")
    boxes = [_group(about, asked) for about, asked in record.answered.items()]
    return sheet(stacked(boxes, gap=36), title="What the model says of the text")


def _group(about: str, asked: Sequence[Answer]) -> Box:
    """Rows of the answers to one kind of question."""
    left = max((length(each.subject) for each in asked if each.subject), default=0.0)
    start = left + 14 if left else 0.0
    said = start + max(length(each.said) for each in asked) + 14
    rooms = _rooms(asked)
    parts = [bold(about, 0, 10, longest=100)]
    if any(each.options for each in asked):
        parts.append(faint("probability, and what else could have been said", said, 26))
    for row, each in enumerate(asked):
        y = _ROW * (row + 1) + 20
        parts += [words(each.subject, left, y, anchor="end")] if each.subject else []
        parts.append(bold(each.said, start, y))
        parts += _bar(each.options[0].probability, said, y) if each.options else []
        parts += _others(each, said + _BAR + 20, y, rooms)
    width = max(said + _BAR + 20 + sum(rooms), said + length("x" * 47, 11, longest=60))
    return Box(tuple(parts), max(width, length(about, longest=100)), _ROW * len(asked) + 30)


def _bar(chance: float, x: float, y: float) -> list[str]:
    place = f'x="{x:.1f}" y="{y - 11:.1f}" height="14" rx="3"'
    return [
        f'<rect class="faint" fill-opacity="0.16" {place} width="{_BAR:.0f}"/>',
        f'<rect class="hue0" fill="currentColor" fill-opacity="0.45" {place} width="{_BAR * min(1.0, chance):.1f}"/>',
        words(f"{chance:.3f}", x + 5, y, font=11),
    ]


def _others(each: Written | Answer, x: float, y: float, rooms: Sequence[float]) -> list[str]:
    """What could have stood there instead, and its probability, in columns of these widths."""
    parts = []
    for (name, chance), room in zip(each.others[:_OTHERS], rooms, strict=False):
        parts += [words(name, x, y, font=12), faint(f"{chance:.3f}", x + room - 24, y, anchor="end")]
        x += room
    return parts


def _rooms(rows: Sequence[Written | Answer]) -> list[float]:
    """How wide the columns of other possibilities are."""
    lists = [[length(name, 12) for name, _ in each.others[:_OTHERS]] for each in rows]
    return [max(row[place] for row in lists if len(row) > place) + 64 for place in range(max(map(len, lists)))]
