"""`heedful detect`: texts in, how probable it is that each of their tokens was replaced out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from heedful.cli.arguments import PositionalPath, parse_arguments
from heedful.cli.line_commands import TextLineOptions


@dataclass(frozen=True, kw_only=True)
class Arguments(TextLineOptions):
    """Find replaced tokens with a run of a pre-training whose objective is replaced_tokens (ELECTRA)."""

    run: PositionalPath
    """run folder of a pre-training"""
    format: Literal["columns", "jsonl"] = "columns"
    """a token and the probability that it was replaced on each line and an empty line after each text, or JSON"""


def run(argv: Sequence[str]) -> int:
    """The exit code."""
    args = parse_arguments(Arguments, argv, program="heedful detect")

    from heedful.tasks.pretraining.predictor import ReplacedTokenPredictor

    return args.predict_texts(ReplacedTokenPredictor, use="finds replaced tokens", as_json=args.format == "jsonl")
