"""`heedful align`: which words of a translation belong to which words of its source."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from heedful.cli.arguments import Computing, MaybePath, parse
from heedful.cli.output import destination
from heedful.cli.parallel import TextOptions


@dataclass(frozen=True)
class Arguments:
    """Word alignments of given translations, by what the model's attention looked at: a line of source-target pairs."""

    run: Annotated[Path, tyro.conf.Positional]
    """run folder"""
    text: Annotated[TextOptions, tyro.conf.OmitArgPrefixes]
    output: MaybePath = None
    """file for the alignments; standard output if not given"""
    gold: MaybePath = None
    """alignments by people, line by line, 0-0 for sure links and 0p0 for possible ones: prints the error rate"""
    computing: Annotated[Computing, tyro.conf.OmitArgPrefixes] = field(default_factory=Computing)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful align")
    given.computing.check()
    reader = given.text.reader()

    from heedful.data.readers import read_lines
    from heedful.metrics.alignment import Gold, alignment_error_rate
    from heedful.runs.load import load_as
    from heedful.tasks.translation.face import Translator
    from heedful.tasks.translation.translations import pharaoh

    truth = None
    if given.gold is not None:
        lines = enumerate(read_lines(given.gold), 1)
        truth = [Gold.parse(line, place=f"{given.gold}:{number}") for number, line in lines]
    given.computing.begin()
    translator = load_as(Translator, given.run, use="translates", device=given.computing.device)
    found = translator.link([(pair.source, pair.target) for pair in reader])
    rate = None if truth is None else alignment_error_rate(found, truth)
    with destination(given.output) as out:
        out.write("".join(f"{pharaoh(links)}\n" for links in found))
        out.flush()
    if rate is not None:
        print(f"alignment error rate {rate:.3f} over {len(found):,} sentences", file=sys.stderr)
    return 0
