"""`heedful caption`: pictures or clips in, what they show in words out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

import tyro

from heedful.cli.arguments import MaybePage, parse, require_least
from heedful.cli.lines import RunOptions
from heedful.cli.options import SearchOptions
from heedful.errors import RecipeError

_SHOWN = 100


@dataclass(frozen=True, kw_only=True)
class Arguments(RunOptions):
    """Say in words what pictures or clips show; their files stand on the command line, or one a line in a file."""

    shown: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """files of pictures, or of clips: whatever the run learned from"""
    format: Literal["text", "jsonl"] = "text"
    """file and caption between tabs, or JSON with scores"""
    searching: SearchOptions = field(default_factory=SearchOptions)
    n_best: int = 1
    """captions of each; as text they come as lines of: file, caption, score, between tabs"""
    seed: int = 1
    """of sampling"""
    page: MaybePage = None
    """page (HTML) of what was seen, with what was looked at word by word"""
    inline: ClassVar[str] = "shown"


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful caption")
    require_least(given, n_best=1)

    from heedful.tasks.caption_writer import CaptionWriter
    from heedful.tasks.searches import build_length, build_search

    names = list(given.shown or given.read())
    if given.page is not None and len(names) > _SHOWN:
        raise RecipeError(f"--page: {len(names):,} files are too many for one; give at most {_SHOWN}")
    use = "says what pictures or clips show"
    captioner = given.load(CaptionWriter, use=use)  # type: ignore[type-abstract]  # nothing is made of it here
    config = given.searching.config(captioner.generation)
    lines = replace(
        captioner.lines(),
        search=build_search(config, captioner.target.tokenizer, n_best=given.n_best, seed=given.seed),
        length=build_length(config),
        several=given.n_best > 1,
    )
    told = lines.inputs(iter(names), name="shown" if given.shown else given.place)
    code = given.answer(lines, told, as_json=given.format == "jsonl")
    if given.page is not None:
        from heedful.inspection.page import write_page
        from heedful.tasks.caption_page import caption_page

        write_page(caption_page(captioner, names, search=lines.search), given.page)
    return code
