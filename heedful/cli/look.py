"""`heedful look`: pictures in, their classes out, and where the model looked."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from heedful.cli.arguments import MaybePage, PositionalPaths, parse
from heedful.cli.lines import RunOptions
from heedful.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class Arguments(RunOptions):
    """Tell the classes of pictures, glimpse by glimpse; files of any common kind and size."""

    inline: ClassVar[str] = "pictures"

    pictures: PositionalPaths = ()
    """files; without any, their paths are read line by line"""
    format: Literal["text", "jsonl"] = "text"
    """path, class and probability between tabs, or JSON with all probabilities and glimpses"""
    page: MaybePage = None
    """page (HTML) of one picture: the path of the glimpses over it, and what the model would say after each"""

    def read(self) -> Iterator[str]:
        """Paths, wherever they stand."""
        return map(str, self.pictures) if self.pictures else super().read()


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful look")
    if given.page is not None and len(given.pictures) != 1:
        raise RecipeError(f"--page: is of one picture, and {len(given.pictures)} are named; name one")

    from heedful.inspection.page import write_page
    from heedful.inspection.web import viewer_html
    from heedful.tasks.glimpses.face import Looker

    paths = given.read()  # a file that is missing shows before a model is loaded
    looker = given.load(Looker, use="looks at pictures")
    lines = looker.lines()
    code = given.answer(lines, lines.inputs(paths, name=given.place), as_json=given.format == "jsonl")
    if given.page is not None:
        path = Path(given.pictures[0])
        write_page(viewer_html(looker.inspect(looker.read(path), title=path.name)), given.page)
        print(f"written: {given.page}", file=sys.stderr)
    return code
