"""`heedful classify`: texts in, a class, a number or the best candidate out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from heedful.cli.arguments import MaybeInt, MaybePath, MaybeText, parse
from heedful.cli.output import clear, destination
from heedful.errors import DataError, RecipeError

if TYPE_CHECKING:
    from heedful.tasks.classification.face import Chosen, Classified, Classifier

_CHUNK = 4096


@dataclass(frozen=True)
class Arguments:
    """Classify texts, one a line; a tab parts two texts that are judged together.

    Where the model chooses among candidates, the first column is what all of them share, the others are the candidates.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """run folder"""
    text: tuple[str, ...] = ()
    """texts to classify instead of a file"""
    pair: tuple[str, ...] = ()
    """a second text for each of them; or the candidates of the one text"""
    input: MaybePath = None
    """file of texts, plain or gzipped; standard input if not given"""
    output: MaybePath = None
    """file for the results; standard output if not given"""
    format: Literal["tsv", "jsonl"] = "tsv"
    """the answer and its probability on each line, or JSON with the probabilities of all classes"""
    task: MaybeText = None
    """of runs with several tasks: which one; not needed where one alone classifies"""
    device: MaybeText = None
    """where to compute; a GPU where there is one"""
    threads: MaybeInt = None
    """CPU threads"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful classify")
    if (given.text or given.pair) and given.input is not None:
        raise RecipeError("--text and --input: give one of them, or neither to read standard input")
    if given.pair and not given.text:
        raise RecipeError("--pair: needs --text, which it is judged together with")
    if given.threads is not None and given.threads < 1:
        raise RecipeError(f"--threads: {given.threads}; must be at least 1")

    import torch

    from heedful.runs.load import load_as
    from heedful.tasks.classification.face import Classifier

    if given.threads is not None:
        torch.set_num_threads(given.threads)
    classifier = load_as(Classifier, given.run, use="classifies texts", task=given.task, device=given.device)
    rows = _rows(given, choosing=classifier.answered == "choice")
    begun = False
    with destination(given.output) as out:
        for part in iter(lambda: list(islice(rows, _CHUNK)), []):
            found = _answers(classifier, part)
            if not begun:
                clear(out, given.output)
                begun = True
            out.writelines(_line(each, as_json=given.format == "jsonl") for each in found)
            out.flush()
        if not begun:
            clear(out, given.output)
    return 0


def _rows(given: Arguments, *, choosing: bool) -> Iterator[tuple[str, ...]]:
    """The columns of each text."""
    from heedful.data.readers import read_lines

    if given.text:
        if choosing:
            if len(given.text) > 1 or not given.pair:
                raise RecipeError("--text: this model chooses; give one text, and its candidates with --pair")
            return iter([(*given.text, *given.pair)])
        if given.pair and len(given.pair) != len(given.text):
            raise RecipeError(f"--pair: {len(given.pair)} second texts for {len(given.text)} texts; give one for each")
        return iter(list(zip(given.text, given.pair, strict=True)) if given.pair else [(text,) for text in given.text])
    return _columns(read_lines(given.input or sys.stdin.buffer), choosing=choosing)


def _columns(lines: Iterator[str], *, choosing: bool) -> Iterator[tuple[str, ...]]:
    for number, line in enumerate(lines, 1):
        columns = tuple(line.split("\t"))
        if choosing and len(columns) < 2:
            raise DataError(f"line {number}: no candidates; write a text and its candidates with tabs between them")
        if not choosing and len(columns) > 2:
            raise DataError(f"line {number}: {len(columns)} texts; write one, or two with a tab between them")
        yield columns


def _answers(classifier: Classifier, rows: Sequence[tuple[str, ...]]) -> Sequence[Classified | Chosen]:
    if classifier.answered != "choice":
        return classifier.classify(rows)
    return classifier.choose([[(text, candidate) for candidate in others] for text, *others in rows])


def _line(found: Classified | Chosen, *, as_json: bool) -> str:
    from heedful.tasks.classification.face import Chosen

    if isinstance(found, Chosen):
        if as_json:
            return json.dumps({"number": found.number, "probabilities": found.probabilities}) + "\n"
        return f"{found.number}\t{found.probabilities[found.number]:.4f}\n"
    if as_json:
        content: dict[str, object] = {"label": found.label}
        if found.probabilities:
            content["probabilities"] = dict(found.probabilities)
        if found.cut:
            content["cut"] = found.cut
        return json.dumps(content, ensure_ascii=False) + "\n"
    if isinstance(found.label, str):
        return f"{found.label}\t{found.probabilities[found.label]:.4f}\n"
    return f"{found.label:.4f}\n"
