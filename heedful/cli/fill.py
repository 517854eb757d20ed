"""`heedful fill`: guesses for the gaps of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from heedful.cli.arguments import PositionalPath, parse_arguments, require_minimum
from heedful.cli.line_commands import TextLineOptions
from heedful.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class FillArguments(TextLineOptions):
    """Fill the gaps of texts: heedful fill RUN --text "The capital of France is [MASK]." """

    run: PositionalPath
    """run folder of a pre-trained encoder"""
    top: int = 5
    """number of guesses for each gap"""
    blank: str = "[MASK]"
    """text that marks a hidden token"""
    format: Literal["text", "jsonl"] = "text"
    """a table of guesses, or JSON"""


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    args = parse_arguments(FillArguments, argv, program="heedful fill")
    require_minimum(args, top=1)
    if not args.blank.strip():
        raise RecipeError("--blank: is empty; give the sign of a hidden token, as in [MASK]")

    from heedful.tasks.pretraining.predictor import MaskedLanguageModelPredictor

    as_json = args.format == "jsonl"
    return args.predict_texts(
        MaskedLanguageModelPredictor, use="fills gaps", as_json=as_json, top=args.top, blank=args.blank
    )
