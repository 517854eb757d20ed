"""`heedful fill`: texts with gaps in, what may stand in them out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Literal

import tyro

from heedful.cli.arguments import MaybeInt, MaybePath, MaybeText, parse
from heedful.cli.output import clear, destination
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.tasks.pretraining.reader import Filled

_CHUNK = 1024


@dataclass(frozen=True)
class Arguments:
    """Fill the gaps of texts: heedful fill RUN --text "The capital of France is [MASK]." """

    run: Annotated[Path, tyro.conf.Positional]
    """run folder of a pre-training"""
    text: tuple[str, ...] = ()
    """texts with [MASK] where a token is hidden, instead of a file"""
    input: MaybePath = None
    """file with a text on each line, plain or gzipped; standard input if not given"""
    output: MaybePath = None
    """file for the results; standard output if not given"""
    top: int = 5
    """guesses for each gap"""
    blank: str = "[MASK]"
    """what stands for a hidden token"""
    format: Literal["text", "jsonl"] = "text"
    """a table of guesses, or JSON"""
    device: MaybeText = None
    """where to compute; a GPU where there is one"""
    threads: MaybeInt = None
    """CPU threads"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful fill")
    if given.text and given.input is not None:
        raise RecipeError("--text and --input: give one of them, or neither to read standard input")
    for name in ("top", "threads"):
        number = getattr(given, name)
        if number is not None and number < 1:
            raise RecipeError(f"--{name}: {number}; must be at least 1")
    if not given.blank.strip():
        raise RecipeError("--blank: is empty; give what stands for a hidden token, as in [MASK]")

    import torch

    from heedful.data.readers import batched, read_lines
    from heedful.runs.load import load_as
    from heedful.tasks.pretraining.reader import Reader

    if given.threads is not None:
        torch.set_num_threads(given.threads)
    lines: Iterator[str] = iter(given.text) if given.text else read_lines(given.input or sys.stdin.buffer)
    reader = load_as(Reader, given.run, use="fills gaps", device=given.device)
    begun = False
    with destination(given.output) as out:
        for number, texts in enumerate(batched(lines, _CHUNK)):
            found = reader.fill(texts, top=given.top, blank=given.blank, first=1 + number * _CHUNK)
            if not begun:
                clear(out, given.output)
                begun = True
            for each in found:
                _write(out, each, as_json=given.format == "jsonl")
            out.flush()
        if not begun:
            clear(out, given.output)
    return 0


def _write(out: IO[str], filled: Filled, *, as_json: bool) -> None:
    if as_json:
        out.write(json.dumps(asdict(filled), ensure_ascii=False) + "\n")
        return
    out.write(f"{filled.text}\n")
    for number, guesses in enumerate(filled.gaps, 1):
        told = "  ".join(f"{guess.piece} {guess.probability:.3f}" for guess in guesses)
        out.write(f"  gap {number}: {told}\n" if len(filled.gaps) > 1 else f"  {told}\n")
