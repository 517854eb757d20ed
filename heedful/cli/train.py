"""`heedful train`: from a recipe to a trained model."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from heedful.cli.arguments import MaybeText, PositionalPath, parse_apart
from heedful.cli.file_names import looks_like_file
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

    recipe: PositionalPath
    """TOML file that says what differs from the defaults"""
    print_config: bool = False
    """show the complete recipe and stop"""
    device: MaybeText = None
    """where to compute (cpu, cuda, cuda:1); a GPU where there is one"""


def run(arguments: Sequence[str]) -> int:
    """The exit code: 0, or 128 and the signal that interrupted training."""
    _require_recipe(arguments)
    given, overrides = parse_apart(Arguments, arguments, program="heedful train")
    recipe = _load(given.recipe, overrides)
    if given.print_config:
        print(dump(_whole(recipe, given.device)), end="")
        return 0

    from rich.console import Console

    from heedful.cli.progress import TrainingProgress
    from heedful.runs.learning_curve import high_perplexity
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
        if remark := high_perplexity(outcome.folder / "metrics.jsonl"):
            say(f"note: {remark}")
        following = kind.tried(recipe).replace("RUN", shlex.quote(str(outcome.folder)))
        say(f"trained: {outcome.folder}\nnext: heedful {following}")
    return 128 + outcome.signal if outcome.signal else 0


def _require_recipe(words: Sequence[str]) -> None:
    """Name `heedful new` where several files are given, and they are no recipes.

    Raises:
        RecipeError: the words before the first option are names of files, of which one is not that of a recipe.
    """
    files = list(takewhile(lambda word: not word.startswith("-"), words))
    if len(files) > 1 and all(map(looks_like_file, files)) and not all(file.endswith(".toml") for file in files):
        raise RecipeError(f"{', '.join(files)}: a recipe is expected here; {_remedy(files)}")


def _load(file: Path, overrides: Sequence[str]) -> Recipe:
    """The recipe in a file; `RecipeError` names `heedful new` where the file may be data."""
    try:
        return load_recipe(file, overrides)
    except RecipeError as error:
        if file.suffix == ".toml" or str(file) == "-" or file.is_dir():
            raise
        raise RecipeError(f"{error}; {_remedy([str(file)])}") from None


def _remedy(files: Sequence[str]) -> str:
    return f"if these are data, write a recipe for them first: {shlex.join(['heedful', 'new', *files])}"


def _whole(recipe: Recipe, device: str | None) -> Recipe:
    """With what training would choose by the data and the time."""
    if not recipe.is_open:
        return recipe

    from heedful.runs.device import find_device
    from heedful.runs.fitted import fitted
    from heedful.runs.initial import resolved

    return fitted(resolved(recipe), device=find_device(device))
