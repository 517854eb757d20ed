"""`heedful train`: train the model of a recipe."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from heedful.cli.arguments import PositionalPath, parse_known_arguments
from heedful.cli.file_names import is_file_name
from heedful.cli.output import log
from heedful.errors import RecipeError
from heedful.recipes.load import dump, load_recipe
from heedful.recipes.recipe import Recipe


@dataclass(frozen=True)
class TrainArguments:
    """Train the model of a recipe, or resume an interrupted run.

    Any key of the recipe can be changed by an option:

        heedful train recipe.toml --training.steps 2000 --model.positions.kind rotary

    heedful recipe KEY explains a key, such as training.steps; heedful recipe lists all keys of a task.
    """

    recipe: PositionalPath
    """TOML file with the keys that differ from the defaults"""
    print_config: bool = False
    """show the complete recipe and exit"""
    device: str | None = None
    """device to compute on (cpu, cuda, cuda:1); a GPU if there is one"""


def run(argv: Sequence[str]) -> int:
    """Run `heedful train`, which trains the model of a recipe, and return its exit code: 0, or 128 and the signal that
    interrupted training.
    """
    _require_recipe(argv)
    args, overrides = parse_known_arguments(TrainArguments, argv, program="heedful train")
    recipe = _load_recipe(args.recipe, overrides)
    if args.print_config:
        print(dump(_complete_recipe(recipe, args.device)), end="")
        return 0

    from rich.console import Console

    from heedful.cli.progress import TrainingProgress
    from heedful.runs.learning_curve import describe_high_perplexity
    from heedful.runs.train import train
    from heedful.runs.trainer_factory import build_limits
    from heedful.tasks.task import get_task
    from heedful.training.eta import TrainingForecast

    console = Console(stderr=True, force_terminal=None if os.environ.get("RANK", "0") == "0" else False)
    task, forecast = get_task(recipe), TrainingForecast(build_limits(recipe.training))
    with TrainingProgress(forecast, console, task.unit_names) as progress:
        result = train(recipe, listeners=[progress], say=log, device=args.device)
    if result.leads and result.signal:
        name = signal.Signals(result.signal).name
        log(f"{name}: saved; run the same command again to continue from here ({result.folder})")
    elif result.leads:
        if warning := describe_high_perplexity(result.folder / "metrics.jsonl"):
            log(f"note: {warning}")
        next_command = task.example_command(recipe).replace("RUN", shlex.quote(str(result.folder)))
        log(f"trained: {result.folder}\nnext: heedful {next_command}")
    return 128 + result.signal if result.signal else 0


def _require_recipe(argv: Sequence[str]) -> None:
    """Raise an error that names `heedful new` if several files are given and they are not recipes.

    Raises:
        RecipeError: the words before the first option are file names, and one of them is not that of a recipe.
    """
    files = list(takewhile(lambda word: not word.startswith("-"), argv))
    if len(files) > 1 and all(map(is_file_name, files)) and not all(file.endswith(".toml") for file in files):
        raise RecipeError(f"{', '.join(files)}: a recipe is expected here; {_suggest_new(files)}")


def _load_recipe(file: Path, overrides: Sequence[str]) -> Recipe:
    """Load the recipe in a file, changed by the options `overrides`; the `RecipeError` mentions `heedful new` if the
    file may be data.
    """
    try:
        return load_recipe(file, overrides)
    except RecipeError as error:
        if file.suffix == ".toml" or str(file) == "-" or file.is_dir():
            raise
        raise RecipeError(f"{error}; {_suggest_new([str(file)])}") from None


def _suggest_new(files: Sequence[str]) -> str:
    """Return the hint to write a recipe for data files first."""
    return f"if these are data, write a recipe for them first: {shlex.join(['heedful', 'new', *files])}"


def _complete_recipe(recipe: Recipe, device: str | None) -> Recipe:
    """Return the recipe with the values that training on the device would choose from the data and the time."""
    if not recipe.needs_fitting:
        return recipe

    from heedful.runs.device import find_device
    from heedful.runs.resolve import fit_recipe, resolve_recipe

    return fit_recipe(resolve_recipe(recipe).recipe, device=find_device(device))
