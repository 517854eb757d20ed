"""Names that other programs use for the options of heedful."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

OPTION_SYNONYMS: Final[Mapping[str, Sequence[str]]] = {
    "beams": ("beam",),
    "beam-size": ("beam",),
    "beam-width": ("beam",),
    "checkpoint": ("step",),
    "cpu": ("device",),
    "cuda": ("device",),
    "decoding": ("search",),
    "do-sample": ("search",),
    "file": ("input", "data"),
    "gpu": ("device",),
    "html": ("page", "output"),
    "i": ("input", "data"),
    "infile": ("input",),
    "json": ("format",),
    "length": ("tokens",),
    "max-length": ("tokens", "max-extra"),
    "max-new-tokens": ("tokens", "max-extra"),
    "max-tokens": ("tokens", "max-extra"),
    "num-beams": ("beam",),
    "num-return-sequences": ("n-best",),
    "num-samples": ("n-best", "samples"),
    "num-threads": ("threads",),
    "o": ("output", "page"),
    "outfile": ("output",),
    "sentence": ("text",),
    "strategy": ("search",),
    "temp": ("temperature",),
}
"""Options of heedful by those names, the likeliest first."""
