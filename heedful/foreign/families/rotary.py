"""Rotary positions in config.json: base, share of the rotated numbers, and scaling for long texts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from heedful.architectures.attention import (
    BandScalingConfig,
    LinearScalingConfig,
    RotaryConfig,
    RotaryScalingConfig,
    YarnScalingConfig,
)
from heedful.errors import RunError

_KNOWN_TYPES: Final = ("default", "linear", "llama3", "yarn")


def read_rotary_settings(
    content: Mapping[str, Any], *, location: str, share: float = 1.0, base: float = 10000.0
) -> dict[str, Any]:
    """Read rotary positions from the content of config.json as heedful's table `positions`.

    Args:
        content: of config.json; `rope_parameters`, or the older `rope_scaling` with `rope_theta`.
        location: path of the file, for messages.
        share: share of the rotated numbers if none is given.
        base: base of the wavelengths if none is given.

    Raises:
        RunError: a kind of scaling that heedful does not have.
    """
    table = content.get("rope_parameters") or content.get("rope_scaling") or {}
    if not isinstance(table, dict):
        raise RunError(f"{location}: rope_parameters is not an object; take another copy of this file")
    kind = table.get("rope_type", table.get("type", "default"))
    if kind not in _KNOWN_TYPES:
        choices = ", ".join(_KNOWN_TYPES)
        raise RunError(f"{location}: rope_type = {kind!r}: heedful has only {choices}; take a model with one of them")
    base = table.get("rope_theta", content.get("rope_theta", content.get("rotary_emb_base", base)))
    share = table.get("partial_rotary_factor", content.get("partial_rotary_factor", content.get("rotary_pct", share)))
    length = table.get("original_max_position_embeddings", content.get("max_position_embeddings"))
    settings: dict[str, Any] = {"kind": "rotary", "base": base, "share": share}
    match kind:
        case "linear":
            settings["scaling"] = {"kind": "linear", "factor": table.get("factor")}
        case "llama3":
            settings["scaling"] = {
                "kind": "band",
                "factor": table.get("factor"),
                "low": table.get("low_freq_factor"),
                "high": table.get("high_freq_factor"),
                "length": length,
            }
        case "yarn":
            settings["scaling"] = _read_yarn(table, length, location=location)
    return settings


def _read_yarn(table: Mapping[str, Any], length: Any, *, location: str) -> dict[str, Any]:
    """Read the scaling of YaRN; `length` is the number of positions in the original training. Raise RunError, which
    names `location`, if a number is missing.
    """
    factor, amplitude = _read_number(table, "factor", location=location), table.get("attention_factor")
    if amplitude is None:
        amplitude = _compute_amplitude(factor, 1.0)
        if table.get("mscale") and table.get("mscale_all_dim"):
            inner, outer = (_read_number(table, key, location=location) for key in ("mscale", "mscale_all_dim"))
            amplitude = _compute_amplitude(factor, inner) / _compute_amplitude(factor, outer)
    return {
        "kind": "yarn",
        "factor": factor,
        "fast": table.get("beta_fast") or 32,
        "slow": table.get("beta_slow") or 1,
        "length": length,
        "amplitude": amplitude,
        "rounded": table.get("truncate", True),
    }


def _read_number(table: Mapping[str, Any], key: str, *, location: str) -> float:
    """Return a positive number of `rope_parameters`; raise RunError, which names `location`, if there is none."""
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise RunError(f"{location}: {key} = {value!r} in rope_parameters: must be a positive number; mend the file")
    return float(value)


def _compute_amplitude(factor: float, weight: float) -> float:
    """Return the factor of rotated queries and keys for a scaling by `factor` (Peng et al. 2024, equation 15)."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def write_rotary_settings(config: RotaryConfig) -> dict[str, Any]:
    """Return the entries of config.json for rotary positions."""
    common = {"rope_theta": config.base, "partial_rotary_factor": config.share}
    return {"rope_parameters": {**common, **_write_scaling(config.scaling)}, "rope_theta": config.base}


def _write_scaling(config: RotaryScalingConfig | None) -> dict[str, Any]:
    """Return the entries of `rope_parameters` for the scaling of rotary positions."""
    match config:
        case LinearScalingConfig(factor=factor):
            return {"rope_type": "linear", "factor": factor}
        case BandScalingConfig():
            return {
                "rope_type": "llama3",
                "factor": config.factor,
                "low_freq_factor": config.low,
                "high_freq_factor": config.high,
                "original_max_position_embeddings": config.length,
            }
        case YarnScalingConfig():
            return {
                "rope_type": "yarn",
                "factor": config.factor,
                "beta_fast": config.fast,
                "beta_slow": config.slow,
                "original_max_position_embeddings": config.length,
                "attention_factor": config.amplitude,
                "truncate": config.rounded,
            }
    return {"rope_type": "default"}
