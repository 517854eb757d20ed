"""`heedful tag`: sentences in, a tag for each word out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from heedful.cli.arguments import parse
from heedful.cli.lines import TextOptions


@dataclass(frozen=True, kw_only=True)
class Arguments(TextOptions):
    """Tag the words of sentences, one sentence a line with spaces between its words."""

    format: Literal["columns", "jsonl"] = "columns"
    """a word and its tag on each line and an empty line after each sentence, or JSON with probabilities"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful tag")

    from heedful.tasks.tagging.face import Tagger

    return given.serve(Tagger, use="tags words", as_json=given.format == "jsonl")
