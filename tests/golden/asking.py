"""What golden runs are asked and what they answer, as values that JSON can hold; and where two answers differ."""

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
"""What a command tells of the clock, of other packages' versions and of the folder."""
FORMER_NAMES = {"no_answer_margin": "silence", "no_answer_probability": "none"}
"""What fields of answers were called when the runs were made."""


def ask(model: Any, question: Mapping[str, Any]) -> Any:
    """The plain answer of a loaded run.

    Args:
        model: what `heedful.load` gave.
        question: the method to `call`, what is `asked` in its order, what else is `given` by name; and which `head`
            is asked where there are several.
    """
    face = model.head(question["head"]) if "head" in question else model
    given = dict(question.get("given", {}))
    if "search" in given:
        given["search"] = _search(face, **given["search"])
    found = getattr(face, question["call"])(*question["asked"], **given)
    return plain(_seen(found) if question["call"] == "inspect" else found)


def plain(value: Any) -> Any:
    """Dictionaries, lists, texts and numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        return {FORMER_NAMES.get(field.name, field.name): plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(each) for each in value]
    return value


def printed(text: str) -> Any:
    """What a command printed: what its JSON holds, or for each line what its JSON holds, or the line."""
    whole = _read(text)
    return [_read(line) for line in text.splitlines()] if whole == text else whole


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def differences(found: Any, expected: Any, *, relative: float, absolute: float, place: str = "") -> Iterator[str]:
    """Where an answer is another one than expected: texts must be the same, numbers close.

    What a newer answer tells besides is no difference, nor is what `UNNAMED` names.
    """

    def inside(key: object, ours: Any, theirs: Any) -> Iterator[str]:
        return differences(ours, theirs, relative=relative, absolute=absolute, place=f"{place}/{key}")

    if isinstance(expected, dict) and isinstance(found, dict):
        for key, each in expected.items():
            if key not in found:
                yield f"{place}/{key}: is missing"
            elif key not in UNNAMED:
                yield from inside(key, found[key], each)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            yield from inside(number, ours, theirs)
    elif isinstance(expected, float) and isinstance(found, float):
        if not math.isclose(found, expected, rel_tol=relative, abs_tol=absolute):
            yield f"{place}: {found!r} instead of {expected!r}"
    elif type(expected) is not type(found) or expected != found:
        yield f"{place}: {found!r} instead of {expected!r}"


def _search(face: Any, *, kind: str, **given: Any) -> SearchStrategy:
    """A way to search in the vocabulary that a translator or a writer writes with."""
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


def _seen(record: Any) -> dict[str, Any]:
    """Of all that an inspection tells: the weights of each attention, and what the model answers."""
    maps = [{key: getattr(each, key) for key in ("path", "role", "layer", "heads", "weights")} for each in record.maps]
    return {"maps": maps, "answers": record.answers}
