"""Settings that a recipe leaves open and its task chooses from the data and the training time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, TypeVar

import torch

from heedful.recipes import toml
from heedful.recipes.load import apply_settings, is_unset
from heedful.recipes.recipe import Recipe
from heedful.tasks.auto_settings import ComputeBudget, Settings
from heedful.tasks.task import get_task

AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)


def fit_recipe(
    recipe: AnyRecipe, *, device: torch.device, processes: int = 1, log: Callable[[str], None] = lambda _: None
) -> AnyRecipe:
    """Return the recipe of a new run with the settings that its task chooses for the data, where the recipe leaves
    them open.

    Args:
        recipe: a recipe with the vocabulary and the architecture of its `init`.
        device: device on which each process trains.
        processes: number of processes that train together.
        log: receives the chosen settings, line by line.

    Raises:
        DataError: a text cannot be read or is empty.
    """
    if not recipe.needs_fitting:
        return recipe
    config = recipe.training
    threads = config.threads or torch.get_num_threads()
    budget = ComputeBudget.from_config(config, threads=threads, processes=processes, gpu=device.type == "cuda")
    chosen = {
        key: value for key, value in get_task(recipe).choose_settings(recipe, budget).items() if is_unset(recipe, key)
    }
    assert chosen.keys() <= set(recipe.auto_keys), "a task chooses the settings that its recipe class declares"
    if not chosen:
        return recipe
    log("chosen from the data and the time; keys of the recipe take precedence:")
    for line in format_settings(chosen):
        log(f"  {line}")
    return apply_settings(recipe, chosen, source="the settings chosen from the data and the time")


def format_settings(settings: Settings) -> Iterator[str]:
    """Format settings as lines of a recipe, one line for each table."""

    def get_table(item: tuple[str, Any]) -> str:
        return item[0].rpartition(".")[0]

    for name, items in groupby(settings.items(), key=get_table):
        values = ", ".join(f"{key.rpartition('.')[2]} = {toml.format_value(value)}" for key, value in items)
        yield f"{name} = {{ {values} }}" if name else values
