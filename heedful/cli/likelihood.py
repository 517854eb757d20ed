"""How `heedful evaluate` tells of a language model."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from heedful.tasks.language.text_size import Likelihood


def show_likelihood(system: Path, part: str, found: Likelihood, *, form: Literal["text", "json"]) -> None:
    """On standard output."""
    size = found.size
    if form == "json":
        report = {
            "system": str(system),
            "part": part,
            "loss": found.loss,
            "perplexity": found.perplexity,
            "word_perplexity": found.word_perplexity,
            "character_perplexity": found.character_perplexity,
            "bits_per_character": found.bits_per_character,
            "bits_per_byte": found.bits_per_byte,
            "nats": found.nats,
            "tokens": found.tokens,
            "unknown": found.unknown,
            **asdict(size),
            "context": found.context,
            "stride": found.stride,
        }
        print(json.dumps(report, indent=2))
        return
    print(f"{system}: {part}")
    ends = f" and {size.documents:,} {'end' if size.documents == 1 else 'ends'}"
    rows = (
        ("loss", found.loss, f"nats per token, {found.tokens:,} tokens"),
        ("perplexity", found.perplexity, "per token"),
        ("word perplexity", found.word_perplexity, f"{size.words:,} words{ends}"),
        ("character perplexity", found.character_perplexity, f"{size.characters:,} characters{ends}"),
        ("bits per character", found.bits_per_character, ""),
        ("bits per byte", found.bits_per_byte, f"{size.bytes:,} bytes{ends}"),
    )
    for name, value, about in rows:
        print(f"{name:<20}  {value:12.4f}  {about}".rstrip())
    least = found.context - found.stride
    print(
        f"context {found.context:,}, stride {found.stride:,}: each token follows at least {least:,}, or all there are"
    )
    if found.unknown:
        print(f"{found.unknown:,} tokens are unknown: what they stand for is counted, and not predicted")
