"""`heedful answer`: answer questions by parts of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from heedful.cli.arguments import TextOrPositional, parse_arguments, require_minimum
from heedful.cli.line_commands import RunLineOptions
from heedful.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class AnswerArguments(RunLineOptions):
    """Answer questions by parts of texts, or by an empty line if the text contains no answer.

    A file has a JSON object with `question` and `context` on each line.
    """

    question: TextOrPositional = None
    """one question, instead of a file; it may also follow the run, without the option"""
    context: TextOrPositional = None
    """the text that may contain the answer; it may also follow the question"""
    n_best: int = 1
    """number of answers for each question, in JSON"""
    format: Literal["text", "jsonl"] = "text"
    """an answer on each line, or JSON with positions and probabilities"""
    inline_option = "question"


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    args = parse_arguments(AnswerArguments, argv, program="heedful answer")
    if (args.question is None) != (args.context is None):
        raise RecipeError("--question and --context: give both, or neither to read a file")
    require_minimum(args, n_best=1)

    from heedful.tasks.spans.predictor import QuestionAnsweringPredictor

    line_format = replace(
        args.load_predictor(QuestionAnsweringPredictor, use="answers questions").line_format(), n_best=args.n_best
    )
    if args.question is not None and args.context is not None:
        inputs = iter([(args.question, args.context)])
    else:
        inputs = line_format.parse_lines(args.read_lines(), source_name=args.input_name)
    return args.write_answers(line_format, inputs, as_json=args.format == "jsonl")
