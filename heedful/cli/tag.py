"""`heedful tag`: a tag for each word of a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from heedful.cli.arguments import parse_arguments
from heedful.cli.line_commands import TextLineOptions


@dataclass(frozen=True, kw_only=True)
class TagArguments(TextLineOptions):
    """Tag the words of sentences, one sentence a line with spaces between its words."""

    format: Literal["columns", "jsonl"] = "columns"
    """a word and its tag on each line, with an empty line after each sentence, or JSON with probabilities"""


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    args = parse_arguments(TagArguments, argv, program="heedful tag")

    from heedful.tasks.tagging.predictor import Tagger

    return args.predict_texts(Tagger, use="tags words", as_json=args.format == "jsonl")
