"""`heedful answer`: questions and texts in, parts of the texts out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from heedful.cli.arguments import MaybeInt, MaybePath, MaybeText, parse
from heedful.cli.output import clear, destination
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.tasks.spans.face import Answered

_CHUNK = 256


@dataclass(frozen=True)
class Arguments:
    """Answer questions by parts of texts, or by an empty line where the text does not tell.

    A file has a JSON object with `question` and `context` on each line.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """run folder"""
    question: MaybeText = None
    """one question, instead of a file"""
    context: MaybeText = None
    """the text that may answer it"""
    input: MaybePath = None
    """file of questions, plain or gzipped; standard input if not given"""
    output: MaybePath = None
    """file for the answers; standard output if not given"""
    n_best: int = 1
    """parts of the text that are told for each question, in JSON"""
    format: Literal["text", "jsonl"] = "text"
    """an answer on each line, or JSON with places and probabilities"""
    task: MaybeText = None
    """of runs with several tasks: which one; not needed where one alone answers questions"""
    device: MaybeText = None
    """where to compute; a GPU where there is one"""
    threads: MaybeInt = None
    """CPU threads"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful answer")
    if (given.question is None) != (given.context is None):
        raise RecipeError("--question and --context: give both, or neither to read a file")
    if given.question is not None and given.input is not None:
        raise RecipeError("--question and --input: give one of them, or neither to read standard input")
    for name in ("n_best", "threads"):
        number = getattr(given, name)
        if number is not None and number < 1:
            raise RecipeError(f"--{name.replace('_', '-')}: {number}; must be at least 1")

    import torch

    from heedful.runs.load import load_as
    from heedful.tasks.spans.face import Answerer

    if given.threads is not None:
        torch.set_num_threads(given.threads)
    answerer = load_as(Answerer, given.run, use="answers questions", task=given.task, device=given.device)
    questions = _questions(given)
    begun = False
    with destination(given.output) as out:
        for part in iter(lambda: list(islice(questions, _CHUNK)), []):
            found = answerer.answer_all(part, n_best=given.n_best)
            if not begun:
                clear(out, given.output)
                begun = True
            out.writelines(_line(each, as_json=given.format == "jsonl") for each in found)
            out.flush()
        if not begun:
            clear(out, given.output)
    return 0


def _questions(given: Arguments) -> Iterator[tuple[str, str]]:
    if given.question is not None and given.context is not None:
        yield given.question, given.context
        return
    from heedful.data.readers import json_object, read_lines
    from heedful.data.records import Record

    name = "standard input" if given.input is None else str(given.input)
    for number, line in enumerate(read_lines(given.input or sys.stdin.buffer), 1):
        if line.strip():
            place = f"{name}:{number}"
            record = Record(json_object(line, place=place), place=place)
            yield record.text("question"), record.text("context")


def _line(found: Answered, *, as_json: bool) -> str:
    if not as_json:
        return " ".join(found.text.split()) + "\n"
    content = {"answer": found.text, "none": found.none, "spans": [asdict(span) for span in found.spans]}
    return json.dumps(content, ensure_ascii=False) + "\n"
