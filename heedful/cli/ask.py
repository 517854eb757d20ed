"""`heedful ask`: a story and questions about it in, answers and the facts that were looked at out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from heedful.cli.arguments import Computing, MaybeInt, MaybePage, PositionalPath, parse
from heedful.cli.lines import answer
from heedful.cli.output import say
from heedful.errors import DataError, RecipeError


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Answer questions about a story, and tell which of its sentences each hop looked at.

    The story has a sentence on each line; lines may be numbered from 1.
    """

    run: PositionalPath
    """run folder"""
    story: PositionalPath
    """file of the story, plain or gzipped; - is standard input"""
    question: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """one or more questions"""
    page: MaybePage = None
    """page (HTML) that shows what was looked at; of one question"""
    supporting: tuple[int, ...] = ()
    """on that page: numbers of the facts that are known to answer it, from 1"""
    format: Literal["text", "jsonl"] = "text"
    """as people read it, or JSON with the weights of all facts"""
    step: MaybeInt = None
    """a kept checkpoint instead of the finished model"""
    computing: Computing = field(default_factory=Computing)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful ask")
    if not given.question:
        raise RecipeError('heedful ask: no question; give one behind the story, as in "Where is the apple?"')
    if given.page is not None and len(given.question) > 1:
        raise RecipeError("--page: shows one question; ask the others without it")

    if given.supporting and given.page is None:
        raise RecipeError("--supporting: facts are marked on a page; give --page too")

    from heedful.data.readers import read_lines
    from heedful.tasks.stories.face import StoryLines, StoryReader, sentences

    place = "standard input" if given.story == Path("-") else str(given.story)
    text = "\n".join(read_lines(sys.stdin.buffer if given.story == Path("-") else given.story))
    if "\t" in text:
        raise DataError(f"{place}: holds a tab, as bAbI has it before answers; leave questions out, a fact is a line")
    facts = sentences(text)
    if not facts:
        raise DataError(f"{place}: has no sentence; write one on each line")
    reader = given.computing.load(StoryReader, given.run, use="answers questions about stories", step=given.step)
    if unknown := reader.unknown((*facts, *given.question)):
        say(f"training never saw these words, so they count for nothing: {', '.join(unknown)}")
    lines = StoryLines(reader, explained=True)
    code = answer(lines, [(facts, question) for question in given.question], as_json=given.format == "jsonl")
    if given.page is not None:
        from heedful.inspection.page import write_page
        from heedful.inspection.web import viewer_html

        known = [number - 1 for number in given.supporting]
        write_page(viewer_html(reader.inspect(facts, given.question[0], supporting=known)), given.page)
        say(f"what it looked at: {given.page}")
    return code
