"""`heedful transcribe`: files of sound in, what is said in them out."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from heedful.cli.arguments import MaybePage, PositionalPaths, parse, require_least
from heedful.cli.lines import RunOptions
from heedful.cli.options import SearchOptions
from heedful.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class Arguments(RunOptions):
    """Write what is said in files of sound: WAV, and with the extra `audio` FLAC, OGG and what else soundfile knows."""

    sounds: PositionalPaths = ()
    """files of sound; instead of them --input may name a file with the name of one on each line"""
    format: Literal["text", "jsonl"] = "text"
    """plain lines, or JSON with scores"""
    searching: SearchOptions = field(default_factory=SearchOptions)
    n_best: int = 1
    """texts for each sound; as text they come as lines of: number, text, score, between tabs"""
    seed: int = 1
    """of sampling"""
    page: MaybePage = None
    """file for a page (HTML) of what the model attends to in the one sound that is given"""

    inline: ClassVar[str] = "sounds"

    def read(self) -> Iterator[str]:
        """The names of the files."""
        return map(str, self.sounds) if self.sounds else super().read()


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful transcribe")
    require_least(given, n_best=1)
    if given.page is not None and len(given.sounds) != 1:
        raise RecipeError(f"--page: shows one sound, and {len(given.sounds)} are given; name one")

    from heedful.tasks.speech.face import Recogniser

    names = given.read()
    recogniser = given.load(Recogniser, use="transcribes")
    lines = replace(
        recogniser.lines(),
        generation=given.searching.config(recogniser.generation),
        n_best=given.n_best,
        seed=given.seed,
    )
    code = given.answer(lines, lines.inputs(names, name=given.place), as_json=given.format == "jsonl")
    if given.page is not None:
        from heedful.inspection.page import write_page
        from heedful.inspection.web import viewer_html

        write_page(viewer_html(recogniser.inspect(given.sounds[0])), given.page)
        print(f"written: {given.page}", file=sys.stderr)
    return code
