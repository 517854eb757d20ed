"""Default generation settings of Hugging Face models: generation_config.json, or config.json in older folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heedful.errors import RunError
from heedful.foreign.families.model_family import validate_config
from heedful.foreign.vocabularies import read_json_or_empty
from heedful.recipes.generation import ContinuationConfig, GenerationConfig


def read_generation_settings(folder: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the generation settings in `content`, which is that of config.json, overridden by those of
    generation_config.json in the folder.
    """
    overrides = read_json_or_empty(folder / "generation_config.json")
    return {**content, **{key: value for key, value in overrides.items() if value is not None}}


def build_generation_config(settings: Mapping[str, Any], *, max_positions: int, location: str) -> GenerationConfig:
    """Convert beam width, length penalty, sampling and length to the default search of a translation model; other
    settings have no counterpart. `max_positions` is the number of tokens that the model's positions allow.

    Args:
        settings: see `read_generation_settings`.
        max_positions: number of tokens that the model's positions allow.
        location: path for messages.

    Raises:
        RunError: a number is out of range.
    """
    max_tokens = _read_integer(settings, "max_new_tokens", location=location) or (
        (_read_integer(settings, "max_length", location=location) or max_positions) - 1
    )
    table: dict[str, Any] = {"max_ratio": 0.0, "max_extra": max(1, min(max_tokens, max_positions - 1))}
    if settings.get("do_sample"):
        table |= {"kind": "sampling", **_read_sampling(settings)}
    elif (_read_integer(settings, "num_beams", location=location) or 1) > 1:
        table |= {
            "kind": "beam",
            "width": settings["num_beams"],
            "length_penalty": settings.get("length_penalty", 1.0),
            "normalisation": "power",
        }
    else:
        table["kind"] = "greedy"
    config: GenerationConfig = validate_config(GenerationConfig, table, location=location)
    return config


def build_continuation_config(settings: Mapping[str, Any], *, location: str) -> ContinuationConfig:
    """Convert sampling, repetition penalty and length to the settings of a language model; other settings have no
    counterpart. Raise RunError, which names `location`, if a number is out of range.
    """
    table: dict[str, Any] = {"kind": "greedy"}
    if settings.get("do_sample"):
        table = {"kind": "sampling", **_read_sampling(settings)}
    if (max_tokens := settings.get("max_new_tokens")) is not None:
        table["tokens"] = max_tokens
    table["repetition_penalty"] = settings.get("repetition_penalty", 1.0)
    config: ContinuationConfig = validate_config(ContinuationConfig, table, location=location)
    return config


def read_forbidden_tokens(settings: Mapping[str, Any]) -> frozenset[int]:
    """Return the ids of single tokens that must never be generated, by `bad_words_ids` and `suppress_tokens` of the
    generation settings; raise RunError if they are not ids.
    """
    lists, suppressed = settings.get("bad_words_ids") or [], settings.get("suppress_tokens") or []
    if (
        not isinstance(lists, list)
        or not isinstance(suppressed, list)
        or not all(isinstance(item, list) for item in lists)
    ):
        raise RunError(
            "bad_words_ids, suppress_tokens: are not lists of ids; correct config.json and generation_config.json"
        )
    ids = [*(words[0] for words in lists if len(words) == 1), *suppressed]
    if invalid := [item for item in ids if type(item) is not int]:
        raise RunError(f"bad_words_ids, suppress_tokens: {ascii(invalid[0])[:40]} is not an id; correct config.json")
    return frozenset(ids)


def read_token_id(settings: Mapping[str, Any], key: str) -> int | None:
    """Read the token id under `key` from the generation settings, the first one of a list; None if there is none. Raise
    RunError if it is not a number.
    """
    value = settings.get(key)
    if isinstance(value, list):
        value = value[0] if value else None
    return _read_integer({key: value}, key, location="config.json")


def _read_integer(settings: Mapping[str, Any], key: str, *, location: str) -> int | None:
    """Read the integer under `key` from the settings; None if it is missing. Raise RunError, which names `location`, if
    it has another type.
    """
    value = settings.get(key)
    if value is not None and type(value) is not int:
        raise RunError(f"{location}: {key} = {ascii(value)[:40]} is not a whole number; correct it")
    return value


def _read_sampling(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Read temperature, top_k, top_p and min_p from the settings of transformers. Without top_k, the 50 most probable
    tokens are kept as there, and with 0 all.
    """
    options = {"temperature": settings.get("temperature", 1.0), "top_k": settings.get("top_k", 50) or None}
    for key in ("top_p", "min_p"):
        if settings.get(key) is not None:
            options[key] = settings[key]
    return options
