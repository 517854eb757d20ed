"""`heedful align`: which words of a translation belong to which words of its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from heedful.cli.arguments import Computing, MaybeInt, MaybePath, PositionalPath, parse
from heedful.cli.options import TextOptions
from heedful.cli.output import destination, say


@dataclass(frozen=True)
class Arguments:
    """Word alignments of given translations, by what the model's attention looked at: a line of source-target pairs."""

    run: PositionalPath
    """run folder"""
    text: TextOptions
    output: MaybePath = None
    """file for the alignments; standard output if not given"""
    gold: MaybePath = None
    """alignments by people, line by line, 0-0 for sure links and 0p0 for possible ones: prints the error rate"""
    step: MaybeInt = None
    """a kept checkpoint instead of the finished model"""
    computing: Computing = field(default_factory=Computing)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful align")
    reader = given.text.reader()

    from heedful.data.context import asked, in_context
    from heedful.data.readers import read_lines
    from heedful.metrics.alignment import Gold, alignment_error_rate
    from heedful.tasks.faces import Unread, despite
    from heedful.tasks.translation.face import Translator
    from heedful.tasks.translation.translations import pharaoh

    truth = None
    if given.gold is not None:
        lines = enumerate(read_lines(given.gold), 1)
        truth = [Gold.parse(line, place=f"{given.gold}:{number}") for number, line in lines]
    translator = given.text.direction.of(given.computing.load(Translator, given.run, use="translates", step=given.step))
    pairs = [(asked(pair), pair.target) for pair in in_context(reader, sentences=translator.context)]
    unread = translator.unread(pairs)
    found = despite(pairs, unread, translator.link)
    for each in unread.values():
        say(f"heedful: {each.message}")
    links = [each for each in found if not isinstance(each, Unread)]
    rate = None
    if truth is not None and (links or not unread):
        if len(truth) == len(pairs):
            truth = [each for place, each in enumerate(truth) if place not in unread]
        rate = alignment_error_rate(links, truth)
    with destination(given.output) as out:
        out.write("".join("\n" if isinstance(each, Unread) else f"{pharaoh(each)}\n" for each in found))
        out.flush()
    if rate is not None:
        say(f"alignment error rate {rate:.3f} over {len(links):,} sentences")
    return 2 if unread else 0
