"""The forms of data that questions about stories are learned from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from heedful.data.forms.form import Form, Pointer
from heedful.data.forms.glance import Glance, Objects, Plain

_FACT: Final = re.compile(r"\d+ \S")


def _is_babi(file: Glance) -> bool:
    """Numbered lines that begin again, some with a question, an answer and what supports it between tabs."""
    if not isinstance(file.shape, Plain):
        return False
    lines = file.shape.lines
    return all(map(_FACT.match, lines)) and any("\t" in line for line in lines) and len(lines) > 2


def _has_facts(file: Glance) -> bool:
    return isinstance(file.shape, Objects) and "facts" in file.shape.nested


_COPY: Final = "copy a recipe with heedful recipes babi-task and name your files there"
FORMS: Final[Sequence[Form]] = (
    Pointer(_is_babi, f"these are stories with questions, as bAbI has them; {_COPY}"),
    Pointer(_has_facts, f"these are facts with questions about them; {_COPY}"),
)
