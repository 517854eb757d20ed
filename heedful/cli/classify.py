"""`heedful classify`: a class, a number or the best candidate for each text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from heedful.cli.arguments import parse_arguments
from heedful.cli.line_commands import TextLineOptions
from heedful.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class ClassifyArguments(TextLineOptions):
    """Classify texts, one a line; a tab separates two texts that are classified together.

    If the model chooses among candidates, the first column is their common text, and the other columns are the
    candidates.
    """

    pair: tuple[str, ...] = ()
    """a second text for each text; or the candidates of the only text"""
    format: Literal["tsv", "jsonl"] = "tsv"
    """the answer and its probability on each line, or JSON with the probabilities of all classes"""


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    args = parse_arguments(ClassifyArguments, argv, program="heedful classify")
    if args.pair and not args.text:
        raise RecipeError("--pair: needs --text, the first text of the pair")

    from heedful.tasks.classification.predictor import Classifier

    classifier = args.load_predictor(Classifier, use="classifies texts")
    line_format = classifier.line_format()
    columns = _build_columns(args, is_choice=classifier.answer_type == "choice") if args.text else None
    inputs = columns or line_format.parse_lines(args.read_lines(), source_name=args.input_name)
    return args.write_answers(line_format, inputs, as_json=args.format == "jsonl")


def _build_columns(args: ClassifyArguments, *, is_choice: bool) -> Iterator[tuple[str, ...]]:
    """Return the columns of each text on the command line."""
    if is_choice:
        if len(args.text) > 1 or not args.pair:
            raise RecipeError(
                "--text: this model chooses among candidates; give one text, and its candidates with --pair"
            )
        return iter([(*args.text, *args.pair)])
    columns = list(filter(None, (args.text, args.pair)))
    if len(set(map(len, columns))) > 1:
        raise RecipeError(f"--pair: {len(args.pair)} second texts for {len(args.text)} texts; give one for each")
    return zip(*columns, strict=True)
