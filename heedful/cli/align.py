"""`heedful align`: word alignments between sentences and translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from heedful.cli.arguments import DeviceOptions, PositionalPath, parse_arguments
from heedful.cli.options import ParallelTextOptions
from heedful.cli.output import log, open_output


@dataclass(frozen=True)
class AlignArguments:
    """Align the words of given translations by the attention of the model: a line of source-target pairs for each."""

    run: PositionalPath
    """run folder"""
    text: ParallelTextOptions
    output: Path | None = None
    """file for the alignments; standard output if not given"""
    gold: Path | None = None
    """gold alignments, line by line, 0-0 for sure links and 0p0 for possible ones: prints the error rate"""
    step: int | None = None
    """a kept checkpoint instead of the finished model"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    args = parse_arguments(AlignArguments, argv, program="heedful align")
    reader = args.text.build_reader()

    from heedful.data.context import add_context, get_source_with_context
    from heedful.data.readers import read_lines
    from heedful.metrics.alignment import GoldAlignment, alignment_error_rate
    from heedful.tasks.predictor import UnreadableInput, answer_readable
    from heedful.tasks.translation.translations import format_pharaoh
    from heedful.tasks.translation.translator import Translator

    gold_links = None
    if args.gold is not None:
        lines = enumerate(read_lines(args.gold), 1)
        gold_links = [GoldAlignment.parse(line, location=f"{args.gold}:{number}") for number, line in lines]
    translator = args.text.direction.apply_to(
        args.computing.load_predictor(Translator, args.run, use="translates", step=args.step)
    )
    pairs = [
        (get_source_with_context(pair), pair.target) for pair in add_context(reader, max_sentences=translator.context)
    ]
    unread = translator.unread(pairs)
    results = answer_readable(pairs, unread, translator.link)
    for result in unread.values():
        log(f"heedful: {result.message}")
    links = [result for result in results if not isinstance(result, UnreadableInput)]
    error_rate = None
    if gold_links is not None and (links or not unread):
        if len(gold_links) == len(pairs):
            gold_links = [result for index, result in enumerate(gold_links) if index not in unread]
        error_rate = alignment_error_rate(links, gold_links)
    with open_output(args.output) as out:
        out.write(
            "".join(
                "\n" if isinstance(result, UnreadableInput) else f"{format_pharaoh(result)}\n" for result in results
            )
        )
        out.flush()
    if error_rate is not None:
        log(f"alignment error rate {error_rate:.3f} over {len(links):,} sentences")
    return 2 if unread else 0
