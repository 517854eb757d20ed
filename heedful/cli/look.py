"""`heedful look`: classify pictures glimpse by glimpse, and show where the model looked."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from heedful.cli.arguments import OptionalPage, PositionalPaths, parse_arguments
from heedful.cli.line_commands import RunLineOptions
from heedful.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class LookArguments(RunLineOptions):
    """Classify pictures, glimpse by glimpse; files of any common format and size."""

    inline_option: ClassVar[str] = "pictures"

    pictures: PositionalPaths = ()
    """picture files; without any, their paths are read line by line"""
    format: Literal["text", "jsonl"] = "text"
    """path, class and probability, separated by tabs, or JSON with all probabilities and glimpses"""
    page: OptionalPage = None
    """page (HTML) of one picture: the path of the glimpses over it, and the model's answer after each"""

    def read_lines(self) -> Iterator[str]:
        """Return the paths from the command line or the input."""
        return map(str, self.pictures) if self.pictures else super().read_lines()


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    args = parse_arguments(LookArguments, argv, program="heedful look")
    if args.page is not None and len(args.pictures) != 1:
        raise RecipeError(f"--page: shows one picture, but {len(args.pictures)} are given; give one")

    from heedful.inspection.page import write_page
    from heedful.inspection.web import render_viewer
    from heedful.tasks.glimpses.predictor import GlimpsePredictor

    paths = args.read_lines()  # a file that is missing shows before a model is loaded
    looker = args.load_predictor(GlimpsePredictor, use="looks at pictures")
    lines = looker.line_format()
    exit_code = args.write_answers(
        lines, lines.parse_lines(paths, source_name=args.input_name), as_json=args.format == "jsonl"
    )
    if args.page is not None:
        path = Path(args.pictures[0])
        write_page(render_viewer(looker.inspect(looker.load_picture(path), title=path.name)), args.page)
        print(f"written: {args.page}", file=sys.stderr)
    return exit_code
