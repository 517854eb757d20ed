"""`heedful caption`: pictures or clips in, what they show in words out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

import tyro

from heedful.cli.arguments import OptionalPage, parse_arguments, require_minimum
from heedful.cli.line_commands import RunLineOptions
from heedful.cli.options import SearchOptions
from heedful.errors import RecipeError

_MAX_PAGE_FILES = 100


@dataclass(frozen=True, kw_only=True)
class Arguments(RunLineOptions):
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
    page: OptionalPage = None
    """page (HTML) of what was seen, with what was looked at word by word"""
    inline_option: ClassVar[str] = "shown"


def run(argv: Sequence[str]) -> int:
    """The exit code."""
    args = parse_arguments(Arguments, argv, program="heedful caption")
    require_minimum(args, n_best=1)

    from heedful.tasks.base_captioner import BaseCaptioner
    from heedful.tasks.search_factory import build_length_limits, build_search

    names = list(args.shown or args.read_lines())
    if args.page is not None and len(names) > _MAX_PAGE_FILES:
        raise RecipeError(f"--page: {len(names):,} files are too many for one; give at most {_MAX_PAGE_FILES}")
    use = "says what pictures or clips show"
    captioner = args.load_predictor(BaseCaptioner, use=use)  # type: ignore[type-abstract]  # nothing is made of it here
    config = args.searching.apply_to(captioner.generation)
    line_format = replace(
        captioner.line_format(),
        search=build_search(config, captioner.target.tokenizer, n_best=args.n_best, seed=args.seed),
        length=build_length_limits(config),
        all_candidates=args.n_best > 1,
    )
    inputs = line_format.parse_lines(iter(names), source_name="shown" if args.shown else args.input_name)
    exit_code = args.write_answers(line_format, inputs, as_json=args.format == "jsonl")
    if args.page is not None:
        from heedful.inspection.page import write_page
        from heedful.tasks.caption_page import build_caption_page

        write_page(build_caption_page(captioner, names, search=line_format.search), args.page)
    return exit_code
