"""`heedful embed`: texts in, a vector for each out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from heedful.cli.arguments import MaybeInt, MaybePath, MaybeText, parse
from heedful.cli.output import clear, destination
from heedful.errors import RecipeError

_CHUNK = 4096


@dataclass(frozen=True)
class Arguments:
    """A vector for each text: the mean of what the encoder says of its tokens, or of a classifier what it classifies.

    Texts that are alike to the model lie close together.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """folder of a model with an encoder"""
    text: tuple[str, ...] = ()
    """texts instead of a file"""
    input: MaybePath = None
    """file with a text on each line, plain or gzipped; standard input if not given"""
    output: MaybePath = None
    """file for the vectors: a name that ends with .npy gets one array, every other JSON, a list of numbers a line;
    standard output if not given"""
    normalise: bool = False
    """make each vector one long, so that products are cosines"""
    task: MaybeText = None
    """of runs with several tasks: which one"""
    device: MaybeText = None
    """where to compute; a GPU where there is one"""
    threads: MaybeInt = None
    """CPU threads"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful embed")
    if given.text and given.input is not None:
        raise RecipeError("--text and --input: give one of them, or neither to read standard input")
    if given.threads is not None and given.threads < 1:
        raise RecipeError(f"--threads: {given.threads}; must be at least 1")

    import numpy as np
    import torch

    from heedful.data.readers import batched, read_lines
    from heedful.inspection.picture_files import write_array
    from heedful.runs.load import load_embedder

    if given.threads is not None:
        torch.set_num_threads(given.threads)
    lines: Iterator[str] = iter(given.text) if given.text else read_lines(given.input or sys.stdin.buffer)
    reader = load_embedder(given.run, task=given.task, device=given.device)

    def vectors() -> Iterator[np.ndarray]:
        for number, texts in enumerate(batched(lines, _CHUNK)):
            found = reader.embed(texts, first=1 + number * _CHUNK)
            yield found / np.linalg.norm(found, axis=1, keepdims=True).clip(1e-12) if given.normalise else found

    if given.output is not None and given.output.suffix == ".npy":
        blocks = list(vectors())
        write_array(np.concatenate(blocks) if blocks else np.zeros((0, 0), dtype=np.float32), given.output)
        return 0
    begun = False
    with destination(given.output) as out:
        for block in vectors():
            if not begun:
                clear(out, given.output)
                begun = True
            out.writelines(json.dumps([round(float(x), 6) for x in row]) + "\n" for row in block)
            out.flush()
        if not begun:
            clear(out, given.output)
    return 0
