"""`heedful predict`: answers of a run to lines, for any task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from heedful.cli.arguments import parse_arguments
from heedful.cli.line_commands import TextLineOptions


@dataclass(frozen=True, kw_only=True)
class PredictArguments(TextLineOptions):
    """Answer lines as the task of a run does: translations of sentences, tags of words, labels of texts.

    Commands such as `heedful translate` and `heedful tag` do the same with more options; this command also supports
    tasks of installed packages.
    """

    format: Literal["text", "jsonl"] = "text"
    """text for people, or JSON with the complete answers"""


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    args = parse_arguments(PredictArguments, argv, program="heedful predict")

    from heedful.tasks.predictor import Predictor

    return args.predict_texts(Predictor, use="answers lines", as_json=args.format == "jsonl")  # type: ignore[type-abstract]  # any
