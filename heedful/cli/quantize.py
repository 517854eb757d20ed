"""`heedful quantize`: a trained run with weights of bytes, a quarter of the size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

from heedful.cli.arguments import MaybeInt, PositionalPath, parse
from heedful.cli.output import say


@dataclass(frozen=True)
class Arguments:
    """Write a trained run whose large matrices are bytes: heedful quantize RUN FOLDER

    It is about a quarter as large, works as RUN does in all commands, faster where the model is wide (--engine int8),
    and cannot be trained further. How little the answers change, heedful evaluate FOLDER --against RUN says.
    """

    run: PositionalPath
    """run folder"""
    output: PositionalPath
    """where to write; new or empty"""
    step: MaybeInt = None
    """a kept checkpoint instead of the finished model"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful quantize")

    from heedful.runs.quantize import quantize

    before, after = quantize(given.run, given.output, step=given.step)
    say(f"written: {given.output}, {after / 1e6:,.1f} MB of weights instead of {before / 1e6:,.1f}")
    say(f"next: heedful evaluate {quote(str(given.output))} --against {quote(str(given.run))}")
    return 0
