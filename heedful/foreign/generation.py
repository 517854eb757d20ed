"""How models of Hugging Face search unless told otherwise: generation_config.json, or config.json in older folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from heedful.errors import RunError
from heedful.foreign.vocabularies import read_json_if_there
from heedful.recipes.generation import ContinuationConfig, GenerationConfig


def generation_settings(folder: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """What config.json says of generation, and over it what generation_config.json says."""
    newer = read_json_if_there(folder / "generation_config.json")
    return {**content, **{key: value for key, value in newer.items() if value is not None}}


def translating(settings: Mapping[str, Any], *, longest: int, place: str) -> GenerationConfig:
    """Beam width, length penalty, sampling and length; other settings have no counterpart.

    Args:
        settings: see `generation_settings`.
        longest: tokens that the model's positions are enough for.
        place: for messages.

    Raises:
        RunError: a number is out of range.
    """
    most = _whole(settings, "max_new_tokens", place=place) or (
        (_whole(settings, "max_length", place=place) or longest) - 1
    )
    table: dict[str, Any] = {"max_ratio": 0.0, "max_extra": max(1, min(most, longest - 1))}
    if settings.get("do_sample"):
        table |= {"kind": "sampling", **_sampling(settings)}
    elif (_whole(settings, "num_beams", place=place) or 1) > 1:
        table |= {
            "kind": "beam",
            "width": settings["num_beams"],
            "length_penalty": settings.get("length_penalty", 1.0),
            "normalisation": "power",
        }
    else:
        table["kind"] = "greedy"
    found: GenerationConfig = _validated(GenerationConfig, table, place=place)
    return found


def writing(settings: Mapping[str, Any], *, place: str) -> ContinuationConfig:
    """Sampling or not, repetition penalty and length; other settings have no counterpart; see `translating`."""
    table: dict[str, Any] = {"kind": "greedy"}
    if settings.get("do_sample"):
        table = {"kind": "sampling", **_sampling(settings)}
    if (most := settings.get("max_new_tokens")) is not None:
        table["tokens"] = most
    table["repetition_penalty"] = settings.get("repetition_penalty", 1.0)
    found: ContinuationConfig = _validated(ContinuationConfig, table, place=place)
    return found


def forbidden(settings: Mapping[str, Any]) -> frozenset[int]:
    """Single tokens that must never be written; `RunError` where they are not ids."""
    lists, alone = settings.get("bad_words_ids") or [], settings.get("suppress_tokens") or []
    if not isinstance(lists, list) or not isinstance(alone, list) or not all(isinstance(each, list) for each in lists):
        raise RunError(
            "bad_words_ids, suppress_tokens: are not lists of ids; mend config.json and generation_config.json"
        )
    found = [*(words[0] for words in lists if len(words) == 1), *alone]
    if strange := [each for each in found if type(each) is not int]:
        raise RunError(f"bad_words_ids, suppress_tokens: {ascii(strange[0])[:40]} is not an id; mend config.json")
    return frozenset(found)


def token(settings: Mapping[str, Any], key: str) -> int | None:
    """An id among the settings; of several the first. `RunError` where it is not a number."""
    value = settings.get(key)
    if isinstance(value, list):
        value = value[0] if value else None
    return _whole({key: value}, key, place="config.json")


def _whole(settings: Mapping[str, Any], key: str, *, place: str) -> int | None:
    """A whole number among the settings; `RunError` where something else stands there."""
    value = settings.get(key)
    if value is not None and type(value) is not int:
        raise RunError(f"{place}: {key} = {ascii(value)[:40]} is not a whole number; mend it")
    return value


def _sampling(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Their sampling keeps the 50 most probable tokens unless told otherwise; 0 means all."""
    found = {"temperature": settings.get("temperature", 1.0), "top_k": settings.get("top_k", 50) or None}
    for key in ("top_p", "min_p"):
        if settings.get(key) is not None:
            found[key] = settings[key]
    return found


def _validated(kind: Any, table: Mapping[str, Any], *, place: str) -> Any:
    try:
        return TypeAdapter(kind).validate_python(dict(table))
    except ValidationError as error:
        first = error.errors()[0]
        raise RunError(f"{place}: {first['loc'][-1]} = {first['input']!r}: {first['msg'].lower()}; mend it") from None
