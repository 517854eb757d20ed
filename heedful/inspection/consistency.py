"""Whether the parts of a record that was read fit each other."""

from __future__ import annotations

import numpy as np

from heedful.errors import DataError
from heedful.inspection.record import Answer, Map, Record


def require_consistent(record: Record) -> None:
    """A `DataError` where a part of a record speaks of something that the record does not have.

    What a model has made fits by itself; a file may say anything.
    """
    for each in record.maps:
        _check_map(record, each)
    for part in record.embedded:
        if len(part.words) > (count := len(record.axis(part.axis).tokens)):
            raise DataError(f"embedded {part.side}: {len(part.words)} vectors of {count} tokens of {part.axis}")
    for number, branch in enumerate(record.tree):
        if not -1 <= branch.parent < number:
            raise DataError(f"branch {number}: continues branch {branch.parent}; branches stand behind their parents")
    most = max((len(axis.tokens) for axis in record.axes), default=0)
    for answer in record.answers:
        _check_answer(answer, most)


def _check_map(record: Record, each: Map) -> None:
    heads, queries, keys = each.weights.shape
    if len(each.heads) != heads or len(set(each.heads)) != heads or min(each.heads, default=0) < 0:
        raise DataError(f"{each.name}: weights of {heads} heads, which are called {each.heads[:8]}")
    if each.layer < 0:
        raise DataError(f"{each.name}: layers are counted from 0")
    for name, length in ((each.queries, queries), (each.keys, keys)):
        if length != len(record.axis(name).tokens):
            raise DataError(f"{each.name}: {length} places, and the axis {name} has {len(record.axis(name).tokens)}")
    if not np.isfinite(each.weights).all():
        raise DataError(f"{each.name}: holds weights that are not numbers")


def _check_answer(answer: Answer, most: int) -> None:
    if answer.number is None and not answer.options:
        raise DataError(f"answer about {answer.about}: has neither options nor a number")
    for place in (answer.place, *(option.place for option in answer.options)):
        if place is not None and not 0 <= place < most:
            raise DataError(f"answer about {answer.about}: speaks of token {place}, and there are {most}")
