"""`heedful score`: how probable given translations are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from heedful.cli.arguments import Computing, parse
from heedful.cli.lines import answer
from heedful.cli.parallel import TextOptions


@dataclass(frozen=True)
class Arguments:
    """Log-probabilities of given translations under a model, in nats, one line for each pair."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """run folders; several judge together"""
    text: Annotated[TextOptions, tyro.conf.OmitArgPrefixes]
    format: Literal["text", "jsonl"] = "text"
    """log-probability and number of tokens between tabs, or JSON with each token's"""
    computing: Annotated[Computing, tyro.conf.OmitArgPrefixes] = field(default_factory=Computing)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful score")
    given.computing.check()
    reader = given.text.reader()

    from heedful.runs.load import load_as
    from heedful.tasks.translation.face import Translator
    from heedful.tasks.translation.translations import ScoreLines

    given.computing.begin()
    translator = load_as(Translator, *given.runs, use="translates", device=given.computing.device)
    pairs = ((pair.source, pair.target) for pair in reader)
    return answer(ScoreLines(translator), pairs, as_json=given.format == "jsonl")
