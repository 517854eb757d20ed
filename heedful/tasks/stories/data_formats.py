"""Detection of stories with questions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from heedful.data.detect.format import DataFormat, HintOnlyFormat
from heedful.data.detect.sniff import FileSniff, JsonObjectsShape, PlainLinesShape

_FACT_PATTERN: Final = re.compile(r"\d+ \S")


def _is_babi(file: FileSniff) -> bool:
    """Return whether a file has numbered lines, some with a question, an answer and supporting facts between tabs."""
    if not isinstance(file.shape, PlainLinesShape):
        return False
    lines = file.shape.lines
    return all(map(_FACT_PATTERN.match, lines)) and any("\t" in line for line in lines) and len(lines) > 2


def _has_facts(file: FileSniff) -> bool:
    """Return whether a file has JSON objects with `facts`."""
    return isinstance(file.shape, JsonObjectsShape) and "facts" in file.shape.nested


_RECIPE_HINT: Final = "copy a recipe with heedful recipes babi-task and name your files there"
DATA_FORMATS: Final[Sequence[DataFormat]] = (
    HintOnlyFormat(_is_babi, f"these are stories with questions, as bAbI has them; {_RECIPE_HINT}"),
    HintOnlyFormat(_has_facts, f"these are facts with questions about them; {_RECIPE_HINT}"),
)
