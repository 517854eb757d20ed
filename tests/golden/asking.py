"""Questions to golden runs and their answers as JSON values, and the differences between two answers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from heedful.generation import GNMTLengthPenalty, LogitsFilter, MultinomialSampler, SuppressTokens
from heedful.generation.search import BeamSearch, GreedySearch, SamplingSearch, SearchStrategy

UNNAMED = ("seconds", "signature", "system")
"""Parts of a command's output that depend on the clock, on versions of other packages, or on the folder."""
FORMER_NAMES = {"no_answer_margin": "silence", "no_answer_probability": "none"}
"""Names of fields of answers when the runs were made."""


def ask(model: Any, question: Mapping[str, Any]) -> Any:
    """Return the plain answer of a loaded run.

    Args:
        model: result of `heedful.load`.
        question: the method to `call`, its positional arguments `asked`, its keyword arguments `given`, and the `head`
            to ask if there are several.
    """
    face = model.head(question["head"]) if "head" in question else model
    given = dict(question.get("given", {}))
    if "search" in given:
        given["search"] = _search(face, **given["search"])
    found = getattr(face, question["call"])(*question["asked"], **given)
    return to_plain(_select_inspection(found) if question["call"] == "inspect" else found)


def to_plain(value: Any) -> Any:
    """Convert a value to dictionaries, lists, texts and numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            FORMER_NAMES.get(field.name, field.name): to_plain(getattr(value, field.name)) for field in fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): to_plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_plain(each) for each in value]
    return value


def parse_printed(text: str) -> Any:
    """Parse what a command printed: its JSON, or for each line its JSON or the line."""
    whole = _parse_json(text)
    return [_parse_json(line) for line in text.splitlines()] if whole == text else whole


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def find_differences(found: Any, expected: Any, *, relative: float, absolute: float, place: str = "") -> Iterator[str]:
    """Yield the differences between an answer and the expected one: texts must be equal, numbers close.

    New fields are not differences, and neither are those in `UNNAMED`.
    """

    def compare_entry(key: object, ours: Any, theirs: Any) -> Iterator[str]:
        return find_differences(ours, theirs, relative=relative, absolute=absolute, place=f"{place}/{key}")

    if isinstance(expected, dict) and isinstance(found, dict):
        for key, each in expected.items():
            if key not in found:
                yield f"{place}/{key}: is missing"
            elif key not in UNNAMED:
                yield from compare_entry(key, found[key], each)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            yield from compare_entry(number, ours, theirs)
    elif isinstance(expected, float) and isinstance(found, float):
        if not math.isclose(found, expected, rel_tol=relative, abs_tol=absolute):
            yield f"{place}: {found!r} instead of {expected!r}"
    elif type(expected) is not type(found) or expected != found:
        yield f"{place}: {found!r} instead of {expected!r}"


def _search(face: Any, *, kind: str, **given: Any) -> SearchStrategy:
    """Build a search in the output vocabulary of a translator or language model."""
    special = face.target.special if hasattr(face, "target") else face.tokenizer.special
    unknown = () if special.unk is None or hasattr(face, "target") else (special.unk,)
    filters: tuple[LogitsFilter, ...] = (SuppressTokens((*special.suppressed_ids, *unknown)),)
    if kind == "greedy":
        return GreedySearch(special.eos, filters)
    if kind == "beam":
        return BeamSearch(special.eos, given["width"], GNMTLengthPenalty(given["alpha"]), given["n_best"], filters)
    return SamplingSearch(
        special.eos, MultinomialSampler(given["temperature"], filters, seed=given["seed"]), given["n"]
    )


def _select_inspection(record: Any) -> dict[str, Any]:
    """Select the parts of an inspection to compare: the weights of each attention, and the answers of the model."""
    maps = [{key: getattr(each, key) for key in ("path", "role", "layer", "heads", "weights")} for each in record.maps]
    return {"maps": maps, "answers": record.answers}
