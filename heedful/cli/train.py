"""`heedful train`: from a recipe to a trained model."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from heedful.cli.arguments import MaybeText, PositionalPaths, parse_apart
from heedful.cli.output import say
from heedful.errors import RecipeError
from heedful.recipes.load import dump, load_recipe
from heedful.recipes.recipe import Recipe


@dataclass(frozen=True)
class Arguments:
    """Train a model as a recipe says, or go on where an interrupted run was left.

    Any key of the recipe can be changed: --training.steps 2000 --model.positions.kind rotary

    heedful recipe KEY explains a key, such as training.steps; heedful recipe lists all keys of a task.
    """

    recipe: Annotated[PositionalPaths, tyro.conf.arg(metavar="RECIPE", help_behavior_hint="")]
    """TOML file that says what differs from the defaults"""
    print_config: bool = False
    """show the complete recipe and stop"""
    device: MaybeText = None
    """where to compute (cpu, cuda, cuda:1); a GPU where there is one"""


def run(arguments: Sequence[str]) -> int:
    """The exit code: 0, or 128 and the signal that interrupted training."""
    given, overrides = parse_apart(Arguments, arguments, program="heedful train")
    recipe = _load(given.recipe, overrides)
    if given.print_config:
        print(dump(_whole(recipe, given.device)), end="")
        return 0

    from rich.console import Console

    from heedful.cli.progress import TrainingProgress
    from heedful.runs.loop import limits_of
    from heedful.runs.train import train
    from heedful.tasks.kind import kind_of
    from heedful.training.forecast import Forecast

    console = Console(stderr=True, force_terminal=None if os.environ.get("RANK", "0") == "0" else False)
    kind, forecast = kind_of(recipe), Forecast(limits_of(recipe.training))
    with TrainingProgress(forecast, console, kind.counted) as progress:
        outcome = train(recipe, listeners=[progress], say=say, device=given.device)
    if outcome.leads and outcome.signal:
        name = signal.Signals(outcome.signal).name
        say(f"{name}: saved; the same command goes on from here ({outcome.folder})")
    elif outcome.leads:
        following = kind.tried(recipe).replace("RUN", shlex.quote(str(outcome.folder)))
        say(f"trained: {outcome.folder}\nnext: heedful {following}")
    return 128 + outcome.signal if outcome.signal else 0


def _load(files: Sequence[Path], overrides: Sequence[str]) -> Recipe:
    """The recipe in the one file that is given; `RecipeError` names `heedful new` where the files are data."""
    new = f"write a recipe for them first: {shlex.join(['heedful', 'new', *map(str, files)])}"
    if len(files) > 1 and all(file.suffix == ".toml" for file in files):
        raise RecipeError(f"{files[1]}: one recipe is trained at a time; call the command for each")
    if len(files) > 1:
        raise RecipeError(f"{', '.join(map(str, files))}: one recipe is expected here; if these are data, {new}")
    try:
        return load_recipe(files[0], overrides)
    except RecipeError as error:
        if files[0].suffix == ".toml" or str(files[0]) == "-":
            raise
        raise RecipeError(f"{error}; if these are data, {new}") from None


def _whole(recipe: Recipe, device: str | None) -> Recipe:
    """With what training would choose by the data and the time."""
    if not recipe.is_open:
        return recipe

    from heedful.runs.device import find_device
    from heedful.runs.fitted import fitted
    from heedful.runs.initial import resolved

    return fitted(resolved(recipe), device=find_device(device))
