"""`heedful recipes`: list or copy the recipes that come with heedful."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from heedful.bundled import format_items, get_item, list_recipes
from heedful.cli.arguments import OptionalOutput, parse_arguments
from heedful.cli.option_parser import Positional
from heedful.errors import RecipeError


@dataclass(frozen=True)
class RecipesArguments:
    """List the recipes that come with heedful, or copy one of them."""

    name: Annotated[str, Positional] = ""
    """name of the recipe to copy; without one, all are listed"""
    output: OptionalOutput = None
    """file for the copy; recipes/NAME.toml unless given"""


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    args = parse_arguments(RecipesArguments, argv, program="heedful recipes")
    available = list_recipes()
    if not args.name:
        print(format_items(available))
        return 0
    name = args.name.removeprefix("recipes/").removesuffix(".toml")
    item = get_item(name, available, noun="recipe")
    path = args.output or Path("recipes") / f"{name}.toml"
    if path.exists():
        raise RecipeError(f"{path}: already exists; choose another place with --output")
    from heedful.atomic_io import atomic_replace  # which needs torch

    with atomic_replace(path) as temporary_file:
        temporary_file.write_bytes(item.path.read_bytes())
    print(f"written: {path}\nset the paths of your text in it, then: heedful train {shlex.quote(str(path))}")
    return 0
