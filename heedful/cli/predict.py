"""`heedful predict`: lines in, what the model of a run says of them out, whatever its task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from heedful.cli.arguments import parse_arguments
from heedful.cli.line_commands import TextLineOptions


@dataclass(frozen=True, kw_only=True)
class Arguments(TextLineOptions):
    """Answer lines as the task of a run does: translations of sentences, tags of words, labels of texts.

    Commands such as `heedful translate` and `heedful tag` do the same with more options; this one also serves tasks
    that installed packages have added.
    """

    format: Literal["text", "jsonl"] = "text"
    """as people read it, or JSON with all that the model says"""


def run(argv: Sequence[str]) -> int:
    """The exit code."""
    args = parse_arguments(Arguments, argv, program="heedful predict")

    from heedful.tasks.predictor import Predictor

    return args.predict_texts(Predictor, use="answers lines", as_json=args.format == "jsonl")  # type: ignore[type-abstract]  # any
