"""`heedful transcribe`: files of sound in, what is said in them out."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from heedful.cli.arguments import OptionalPage, PositionalPaths, parse_arguments, require_minimum
from heedful.cli.line_commands import RunLineOptions
from heedful.cli.options import SearchOptions
from heedful.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class Arguments(RunLineOptions):
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
    page: OptionalPage = None
    """file for a page (HTML) of what the model attends to in the one sound that is given"""

    inline_option: ClassVar[str] = "sounds"

    def read_lines(self) -> Iterator[str]:
        """The names of the files."""
        return map(str, self.sounds) if self.sounds else super().read_lines()


def run(argv: Sequence[str]) -> int:
    """The exit code."""
    args = parse_arguments(Arguments, argv, program="heedful transcribe")
    require_minimum(args, n_best=1)
    if args.page is not None and len(args.sounds) != 1:
        raise RecipeError(f"--page: shows one sound, and {len(args.sounds)} are given; name one")

    from heedful.tasks.speech.predictor import SpeechRecognizer

    names = args.read_lines()
    recognizer = args.load_predictor(SpeechRecognizer, use="transcribes")
    line_format = replace(
        recognizer.line_format(),
        generation=args.searching.apply_to(recognizer.generation),
        n_best=args.n_best,
        seed=args.seed,
    )
    exit_code = args.write_answers(
        line_format, line_format.parse_lines(names, source_name=args.input_name), as_json=args.format == "jsonl"
    )
    if args.page is not None:
        from heedful.inspection.page import write_page
        from heedful.inspection.web import render_viewer

        write_page(render_viewer(recognizer.inspect(args.sounds[0])), args.page)
        print(f"written: {args.page}", file=sys.stderr)
    return exit_code
