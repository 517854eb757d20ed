"""`heedful recipes`: the recipes that come with heedful, and copies of them to begin with."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from heedful.cli.arguments import MaybePath, parse
from heedful.errors import RecipeError
from heedful.shelf import listed, pick, recipes


@dataclass(frozen=True)
class Arguments:
    """The recipes that come with heedful, or a copy of one to begin with."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = ""
    """of the recipe that is copied; without one, all are listed"""
    output: Annotated[MaybePath, tyro.conf.arg(aliases=["-o"], metavar="PATH", help_behavior_hint="")] = None
    """of the copy; recipes/NAME.toml unless given"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful recipes")
    known = recipes()
    if not given.name:
        print(listed(known))
        return 0
    name = given.name.removeprefix("recipes/").removesuffix(".toml")
    item = pick(name, known, what="recipe")
    path = given.output or Path("recipes") / f"{name}.toml"
    if path.exists():
        raise RecipeError(f"{path}: is there already; choose another place with --output")
    from heedful.store import replacing  # which needs torch

    with replacing(path) as beside:
        beside.write_bytes(item.path.read_bytes())
    print(f"written: {path}\nsay where your text is, then: heedful train {shlex.quote(str(path))}")
    return 0
