"""`heedful classify`: texts in, a class, a number or the best candidate out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from heedful.cli.arguments import parse
from heedful.cli.lines import TextOptions
from heedful.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class Arguments(TextOptions):
    """Classify texts, one a line; a tab parts two texts that are judged together.

    Where the model chooses among candidates, the first column is what all of them share, the others are the candidates.
    """

    pair: tuple[str, ...] = ()
    """a second text for each of them; or the candidates of the one text"""
    format: Literal["tsv", "jsonl"] = "tsv"
    """the answer and its probability on each line, or JSON with the probabilities of all classes"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful classify")
    if given.pair and not given.text:
        raise RecipeError("--pair: needs --text, which it is judged together with")

    from heedful.tasks.classification.face import Classifier

    classifier = given.load(Classifier, use="classifies texts")
    lines = classifier.lines()
    columns = _given(given, choosing=classifier.answered == "choice") if given.text else None
    inputs = columns or lines.inputs(given.read(), name=given.place)
    return given.answer(lines, inputs, as_json=given.format == "jsonl")


def _given(given: Arguments, *, choosing: bool) -> Iterator[tuple[str, ...]]:
    """The columns of each text on the command line."""
    if choosing:
        if len(given.text) > 1 or not given.pair:
            raise RecipeError("--text: this model chooses; give one text, and its candidates with --pair")
        return iter([(*given.text, *given.pair)])
    columns = list(filter(None, (given.text, given.pair)))
    if len(set(map(len, columns))) > 1:
        raise RecipeError(f"--pair: {len(given.pair)} second texts for {len(given.text)} texts; give one for each")
    return zip(*columns, strict=True)
