"""`heedful calibrate`: what a translation model's own scores say of how good its translations are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from heedful.cli.arguments import Computing, PositionalPath, parse, require_least
from heedful.cli.options import TextOptions
from heedful.cli.output import say, writing
from heedful.errors import RunError


@dataclass(frozen=True)
class Arguments:
    """Translate text whose translations are known, and learn from it how good others probably are.

    What is learned is kept in the run: heedful translate RUN --format jsonl then tells the confidence of each
    translation, the chrF (0 to 1) that translations had of which the model was as sure. Without text options the run's
    validation set is taken; text of the kind that is to be translated is better.
    """

    run: PositionalPath
    """run folder"""
    text: TextOptions
    sentences: int = 1000
    """of the text, at most"""
    batch_tokens: int = 4096
    """source tokens translated at one time, padding included"""
    computing: Computing = field(default_factory=Computing)

    def __post_init__(self) -> None:
        require_least(self, sentences=1, batch_tokens=1)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful calibrate")
    reader = given.text.named_reader()

    from heedful.data.context import in_context
    from heedful.runs.device import keep_pages
    from heedful.runs.load import open_run, require_task
    from heedful.store import MODEL, read_manifest, write_findings
    from heedful.tasks.translation.calibrated import calibrate
    from heedful.tasks.translation.confidence import FILE
    from heedful.tasks.translation.face import Translator

    opened = open_run(given.run)
    require_task(opened, "translation")
    weights = read_manifest(given.run).files.get(MODEL)
    if weights is None:
        raise RunError(f"{given.run}: is not trained to its end, and its model will be another one; train it first")
    data = opened.recipe.data
    text = data.reader("validation") if reader is None else reader
    known = text if reader is None else in_context(text, sentences=data.sentences)  # a recipe's have theirs
    pairs = [pair for pair in known if pair.source and pair.target]
    if len(pairs) > given.sentences:  # spread over the text, which may be in an order
        pairs = [pairs[place * len(pairs) // given.sentences] for place in range(given.sentences)]
    keep_pages()
    translator = given.computing.load(Translator, given.run, use="translates")
    say(f"translating {len(pairs):,} sentences of {' and '.join(map(str, text.paths))}")
    learned = calibrate(translator, pairs, weights=weights, batch_tokens=given.batch_tokens)
    with writing(given.run / FILE, "run"):
        write_findings(given.run, {FILE: learned.confidence.model_dump()})
    print(learned.table().text(), end="")
    print(f"written: {given.run / FILE}")
    return 0
