"""`heedful detect`: the probability that each token of a text was replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from heedful.cli.arguments import PositionalPath, parse_arguments
from heedful.cli.line_commands import TextLineOptions


@dataclass(frozen=True, kw_only=True)
class DetectArguments(TextLineOptions):
    """Find replaced tokens with a model that was pre-trained with the objective replaced_tokens (ELECTRA)."""

    run: PositionalPath
    """run folder of a pre-trained detector"""
    format: Literal["columns", "jsonl"] = "columns"
    """a token and the probability that it was replaced on each line, with an empty line after each text, or JSON"""


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    args = parse_arguments(DetectArguments, argv, program="heedful detect")

    from heedful.tasks.pretraining.predictor import ReplacedTokenPredictor

    return args.predict_texts(ReplacedTokenPredictor, use="finds replaced tokens")
