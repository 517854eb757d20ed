"""Records of answers: what commands write with `--format jsonl`, and what the server sends; needs no torch."""

from __future__ import annotations

import operator
from functools import cache
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

OMIT_EMPTY: Final[Any] = Field(exclude_if=operator.not_)
"""Annotation of a field that is absent if its value is empty, zero or None."""


class AnswerRecord(BaseModel):
    """Base of records that are not the answer of a predictor itself.

    Unknown fields are allowed, since records may gain fields. Abstract.
    """

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)


class CandidateRecord(AnswerRecord):
    """One of the texts that a search found."""

    text: str
    score: float
    """score by which the search ranked the text"""
    log_probability: float
    tokens: list[str]
    finished: bool
    """whether the text ended by itself"""


def dump_record(record: Any) -> Any:
    """Return a record (a pydantic model or a dataclass), or a list of records of one class, as JSON data.

    Fields of a model that were not set are absent, and so are empty ones that are marked with `OMIT_EMPTY`.
    """
    if record == []:
        return []
    record_class: Any = type(record)
    if record_class is list:
        record_class = list[type(record[0])]  # type: ignore[misc]
    return _build_adapter(record_class).dump_python(record, mode="json", by_alias=True, exclude_unset=True)


@cache
def _build_adapter(record_class: Any) -> TypeAdapter[Any]:
    return TypeAdapter(record_class)
