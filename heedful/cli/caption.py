"""`heedful caption`: pictures in, what they show in words out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

import tyro

from heedful.cli.arguments import MaybePath, parse, require_least
from heedful.cli.lines import RunOptions, answer
from heedful.cli.options import SearchOptions
from heedful.errors import RecipeError

_SHOWN = 100


@dataclass(frozen=True, kw_only=True)
class Arguments(RunOptions):
    """Say in words what pictures show; their files stand on the command line, or one a line in a file."""

    pictures: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """files of pictures"""
    format: Literal["text", "jsonl"] = "text"
    """file and caption between tabs, or JSON with scores"""
    searching: SearchOptions = field(default_factory=SearchOptions)
    n_best: int = 1
    """captions of each picture; as text they come as lines of: file, caption, score, between tabs"""
    seed: int = 1
    """of sampling"""
    page: MaybePath = None
    """page (HTML) of the pictures, with what was looked at word by word"""
    inline: ClassVar[str] = "pictures"


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful caption")
    require_least(given, n_best=1)

    from heedful.tasks.captioning.face import Captioner
    from heedful.tasks.searches import build_length, build_search

    names = list(given.pictures or given.read())
    if given.page is not None and len(names) > _SHOWN:
        raise RecipeError(f"--page: {len(names):,} pictures are too many for one; give at most {_SHOWN}")
    captioner = given.load(Captioner, use="says what pictures show")
    config = given.searching.config(captioner.generation)
    lines = replace(
        captioner.lines(),
        search=build_search(config, captioner.target.tokenizer.special, n_best=given.n_best, seed=given.seed),
        length=build_length(config),
        several=given.n_best > 1,
    )
    told = lines.inputs(iter(names), name="pictures" if given.pictures else given.place)
    code = answer(lines, told, output=given.output, as_json=given.format == "jsonl")
    if given.page is not None:
        from heedful.inspection.page import write_page
        from heedful.tasks.captioning.page import caption_page

        write_page(caption_page(captioner, names, search=lines.search), given.page)
    return code
