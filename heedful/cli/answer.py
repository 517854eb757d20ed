"""`heedful answer`: questions and texts in, parts of the texts out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from heedful.cli.arguments import TextBehind, parse, require_least
from heedful.cli.lines import RunOptions
from heedful.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class Arguments(RunOptions):
    """Answer questions by parts of texts, or by an empty line where the text does not tell.

    A file has a JSON object with `question` and `context` on each line.
    """

    question: TextBehind = None
    """one question, instead of a file; it may also stand behind the run, without the option"""
    context: TextBehind = None
    """the text that may answer it; it may also stand behind the question"""
    n_best: int = 1
    """parts of the text that are told for each question, in JSON"""
    format: Literal["text", "jsonl"] = "text"
    """an answer on each line, or JSON with places and probabilities"""
    inline = "question"


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful answer")
    if (given.question is None) != (given.context is None):
        raise RecipeError("--question and --context: give both, or neither to read a file")
    require_least(given, n_best=1)

    from heedful.tasks.spans.face import Answerer

    lines = replace(given.load(Answerer, use="answers questions").lines(), n_best=given.n_best)
    if given.question is not None and given.context is not None:
        inputs = iter([(given.question, given.context)])
    else:
        inputs = lines.inputs(given.read(), name=given.place)
    return given.answer(lines, inputs, as_json=given.format == "jsonl")
