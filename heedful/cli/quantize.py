"""`heedful quantize`: write a trained run with weights in 8 bits, a quarter of the size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

from heedful.cli.arguments import PositionalPath, parse_arguments
from heedful.cli.output import log


@dataclass(frozen=True)
class QuantizeArguments:
    """Write a trained run whose large matrices are stored in 8 bits: heedful quantize RUN FOLDER

    The new folder is about a quarter as large, works like RUN in all commands, is faster if the model is wide (--engine
    int8), and cannot be trained further. heedful evaluate FOLDER --against RUN shows how little the answers change.
    """

    run: PositionalPath
    """run folder"""
    output: PositionalPath
    """folder to write; new or empty"""
    step: int | None = None
    """a kept checkpoint instead of the finished model"""


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    args = parse_arguments(QuantizeArguments, argv, program="heedful quantize")

    from heedful.runs.quantize import quantize

    old_size, new_size = quantize(args.run, args.output, step=args.step)
    log(f"written: {args.output}, {new_size / 1e6:,.1f} MB of weights instead of {old_size / 1e6:,.1f}")
    log(f"next: heedful evaluate {quote(str(args.output))} --against {quote(str(args.run))}")
    return 0
