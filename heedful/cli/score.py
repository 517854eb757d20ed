"""`heedful score`: how probable given translations are."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from heedful.cli.arguments import MaybeText, parse
from heedful.cli.parallel import TextOptions


@dataclass(frozen=True)
class Arguments:
    """Log-probabilities of given translations under a model, in nats, one line for each pair."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """run folders; several judge together"""
    text: Annotated[TextOptions, tyro.conf.OmitArgPrefixes]
    format: Literal["text", "jsonl"] = "text"
    """log-probability and number of tokens between tabs, or JSON with each token's"""
    device: MaybeText = None
    """where to compute; a GPU where there is one"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful score")
    reader = given.text.reader()

    from heedful.runs.load import load_as
    from heedful.tasks.translation.face import Translator

    translator = load_as(Translator, *given.runs, use="translates", device=given.device)
    pairs = [(pair.source, pair.target) for pair in reader]
    for result in translator.score(pairs):
        if given.format == "text":
            print(f"{result.log_probability:.4f}\t{result.count}")
        else:
            record = {
                "log_probability": round(result.log_probability, 5),
                "count": result.count,
                "tokens": [*result.tokens, "</s>"],
                "token_log_probabilities": [round(p, 5) for p in result.token_log_probabilities],
            }
            print(json.dumps(record, ensure_ascii=False))
    sys.stdout.flush()
    return 0
