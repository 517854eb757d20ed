"""`heedful tag`: sentences in, a tag for each word out."""

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
    from heedful.tasks.tagging.face import Tag

_CHUNK = 4096


@dataclass(frozen=True)
class Arguments:
    """Tag the words of sentences, one sentence a line with spaces between its words."""

    run: Annotated[Path, tyro.conf.Positional]
    """run folder"""
    text: tuple[str, ...] = ()
    """sentences to tag instead of a file"""
    input: MaybePath = None
    """file of sentences, plain or gzipped; standard input if not given"""
    output: MaybePath = None
    """file for the tags; standard output if not given"""
    format: Literal["columns", "jsonl"] = "columns"
    """a word and its tag on each line and an empty line after each sentence, or JSON with probabilities"""
    task: MaybeText = None
    """of runs with several tasks: which one; not needed where one alone tags"""
    device: MaybeText = None
    """where to compute; a GPU where there is one"""
    threads: MaybeInt = None
    """CPU threads"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful tag")
    if given.text and given.input is not None:
        raise RecipeError("--text and --input: give one of them, or neither to read standard input")
    if given.threads is not None and given.threads < 1:
        raise RecipeError(f"--threads: {given.threads}; must be at least 1")

    import torch

    from heedful.data.readers import batched, read_lines
    from heedful.runs.load import load_as
    from heedful.tasks.tagging.face import Tagger

    if given.threads is not None:
        torch.set_num_threads(given.threads)
    lines: Iterator[str] = iter(given.text) if given.text else read_lines(given.input or sys.stdin.buffer)
    tagger = load_as(Tagger, given.run, use="tags words", task=given.task, device=given.device)
    begun = False
    with destination(given.output) as out:
        for sentences in batched(lines, _CHUNK):
            found = tagger.tag([sentence.split() for sentence in sentences])
            if not begun:
                clear(out, given.output)
                begun = True
            for tags in found:
                _write(out, tags, as_json=given.format == "jsonl")
            out.flush()
        if not begun:
            clear(out, given.output)
    return 0


def _write(out: IO[str], tags: list[Tag], *, as_json: bool) -> None:
    if as_json:
        out.write(json.dumps([asdict(tag) for tag in tags], ensure_ascii=False) + "\n")
    else:
        out.write("".join(f"{tag.word}\t{tag.name}\n" for tag in tags) + "\n")
