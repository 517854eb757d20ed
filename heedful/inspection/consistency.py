"""Consistency checks of a record that was read from a file."""

from __future__ import annotations

import numpy as np

from heedful.errors import DataError
from heedful.inspection.record import AttentionMap, InspectionRecord, ModelAnswer


def require_consistent(record: InspectionRecord) -> None:
    """Raise `DataError` if a part of a record refers to something that the record does not have.

    Records made from a model are consistent; a file may contain anything.
    """
    for attention_map in record.maps:
        _check_map(record, attention_map)
    for embedded in record.embedded:
        if len(embedded.words) > (count := len(record.get_axis(embedded.axis).tokens)):
            raise DataError(
                f"embedded {embedded.side}: {len(embedded.words)} vectors of {count} tokens of {embedded.axis}"
            )
    for number, branch in enumerate(record.tree):
        if not -1 <= branch.parent < number:
            raise DataError(f"branch {number}: continues branch {branch.parent}; branches come after their parents")
    max_tokens = max((len(axis.tokens) for axis in record.axes), default=0)
    for answer in record.answers:
        _check_answer(answer, max_tokens)


def _check_map(record: InspectionRecord, attention_map: AttentionMap) -> None:
    """Raise `DataError` if a map's heads, layer, size or weights are invalid."""
    heads, queries, keys = attention_map.weights.shape
    if (
        len(attention_map.heads) != heads
        or len(set(attention_map.heads)) != heads
        or min(attention_map.heads, default=0) < 0
    ):
        raise DataError(f"{attention_map.name}: weights of {heads} heads, which are called {attention_map.heads[:8]}")
    if attention_map.layer < 0:
        raise DataError(f"{attention_map.name}: layers are counted from 0")
    for name, length in ((attention_map.queries, queries), (attention_map.keys, keys)):
        if length != len(record.get_axis(name).tokens):
            raise DataError(
                f"{attention_map.name}: {length} places, and the axis {name} has {len(record.get_axis(name).tokens)}"
            )
    if not np.isfinite(attention_map.weights).all():
        raise DataError(f"{attention_map.name}: holds weights that are not numbers")


def _check_answer(answer: ModelAnswer, num_tokens: int) -> None:
    """Raise `DataError` if an answer is empty or refers to a missing token."""
    if answer.number is None and not answer.options:
        raise DataError(f"answer about {answer.about}: has neither options nor a number")
    for index in (answer.place, *(option.place for option in answer.options)):
        if index is not None and not 0 <= index < num_tokens:
            raise DataError(f"answer about {answer.about}: refers to token {index}, but there are {num_tokens}")
