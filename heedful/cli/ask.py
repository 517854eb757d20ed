"""`heedful ask`: answer questions about a story and show which facts were used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from heedful.cli.arguments import DeviceOptions, OptionalPage, PositionalPath, parse_arguments
from heedful.cli.line_commands import write_answers
from heedful.cli.option_parser import Positional
from heedful.cli.output import log
from heedful.errors import DataError, RecipeError


@dataclass(frozen=True, kw_only=True)
class AskArguments:
    """Answer questions about a story, and show which of its sentences each hop attended to.

    The story has a sentence on each line; lines may be numbered from 1.
    """

    run: PositionalPath
    """run folder"""
    story: PositionalPath
    """file of the story, plain or gzipped; - is standard input"""
    question: Annotated[tuple[str, ...], Positional] = ()
    """one question or several"""
    page: OptionalPage = None
    """page (HTML) that shows the attention, for one question"""
    supporting: tuple[int, ...] = ()
    """on that page: numbers of the facts that are known to answer the question, from 1"""
    format: Literal["text", "jsonl"] = "text"
    """text for people, or JSON with the weights of all facts"""
    step: int | None = None
    """a kept checkpoint instead of the finished model"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    args = parse_arguments(AskArguments, argv, program="heedful ask")
    if not args.question:
        raise RecipeError('heedful ask: no question; give one after the story, as in "Where is the apple?"')
    if args.page is not None and len(args.question) > 1:
        raise RecipeError("--page: shows one question; ask the others without it")

    if args.supporting and args.page is None:
        raise RecipeError("--supporting: marks facts on a page; give --page too")

    from heedful.data.readers import read_lines
    from heedful.tasks.stories.predictor import StoryLineFormat, StoryPredictor, split_sentences

    story_name = "standard input" if args.story == Path("-") else str(args.story)
    story_text = "\n".join(read_lines(sys.stdin.buffer if args.story == Path("-") else args.story))
    if "\t" in story_text:
        raise DataError(
            f"{story_name}: contains a tab, which bAbI writes before answers; remove the questions, and write one fact "
            "on each line"
        )
    facts = split_sentences(story_text)
    if not facts:
        raise DataError(f"{story_name}: has no sentence; write one on each line")
    reader = args.computing.load_predictor(
        StoryPredictor, args.run, use="answers questions about stories", step=args.step
    )
    if unknown := reader.find_unknown_words((*facts, *args.question)):
        log(f"these words did not occur in training, so they are ignored: {', '.join(unknown)}")
    line_format = StoryLineFormat(reader, show_facts=True)
    exit_code = write_answers(
        line_format, [(facts, question) for question in args.question], as_json=args.format == "jsonl"
    )
    if args.page is not None:
        from heedful.inspection.page import write_page
        from heedful.inspection.web import render_viewer

        supporting_indices = [number - 1 for number in args.supporting]
        write_page(render_viewer(reader.inspect(facts, args.question[0], supporting=supporting_indices)), args.page)
        log(f"written: {args.page}")
    return exit_code
