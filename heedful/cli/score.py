"""`heedful score`: how probable given translations are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from heedful.cli.arguments import Computing, MaybeInt, PositionalPaths, parse
from heedful.cli.file_names import require_folders
from heedful.cli.lines import answer
from heedful.cli.options import TextOptions


@dataclass(frozen=True)
class Arguments:
    """Log-probabilities of given translations under a model, in nats, one line for each pair."""

    runs: PositionalPaths
    """run folders; several judge together"""
    text: TextOptions
    format: Literal["text", "jsonl"] = "text"
    """log-probability and number of tokens between tabs, or JSON with each token's"""
    step: MaybeInt = None
    """a kept checkpoint instead of the finished model"""
    computing: Computing = field(default_factory=Computing)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful score")
    require_folders(given.runs, read="pairs are read with --data FILE (TSV or JSONL), or with --source and --target")
    reader = given.text.reader()

    from heedful.data.context import asked, in_context
    from heedful.tasks.translation.face import Translator
    from heedful.tasks.translation.translations import ScoreLines

    translator = given.text.direction.of(
        given.computing.load(Translator, *given.runs, use="translates", step=given.step)
    )
    pairs = ((asked(pair), pair.target) for pair in in_context(reader, sentences=translator.context))
    return answer(ScoreLines(translator), pairs, as_json=given.format == "jsonl")
