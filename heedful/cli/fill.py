"""`heedful fill`: texts with gaps in, what may stand in them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from heedful.cli.arguments import PositionalPath, parse, require_least
from heedful.cli.lines import TextOptions
from heedful.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class Arguments(TextOptions):
    """Fill the gaps of texts: heedful fill RUN --text "The capital of France is [MASK]." """

    run: PositionalPath
    """run folder of a pre-training"""
    top: int = 5
    """guesses for each gap"""
    blank: str = "[MASK]"
    """what stands for a hidden token"""
    format: Literal["text", "jsonl"] = "text"
    """a table of guesses, or JSON"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful fill")
    require_least(given, top=1)
    if not given.blank.strip():
        raise RecipeError("--blank: is empty; give what stands for a hidden token, as in [MASK]")

    from heedful.tasks.pretraining.face import Reader

    as_json = given.format == "jsonl"
    return given.serve(Reader, use="fills gaps", as_json=as_json, top=given.top, blank=given.blank)
