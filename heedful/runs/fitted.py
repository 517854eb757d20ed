"""What a recipe leaves open and its task chooses by the data and the time, told and kept in the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, TypeVar

import torch

from heedful.recipes import toml
from heedful.recipes.load import filled, left_open
from heedful.recipes.recipe import Recipe
from heedful.tasks.fitting import Means, Settings
from heedful.tasks.kind import kind_of

AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)


def fitted(
    recipe: AnyRecipe, *, device: torch.device, processes: int = 1, say: Callable[[str], None] = lambda _: None
) -> AnyRecipe:
    """The recipe of a run that is to be made, with what fits its data where it leaves that open.

    Args:
        recipe: with the vocabulary and the architecture of its `init`.
        device: where each process trains.
        processes: how many train together.
        say: told in lines what was chosen.

    Raises:
        DataError: a text cannot be read, or has nothing to learn from.
    """
    if not recipe.is_open:
        return recipe
    config = recipe.training
    threads = config.threads or torch.get_num_threads()
    means = Means.of(config, threads=threads, processes=processes, gpu=device.type == "cuda")
    chosen = {key: value for key, value in kind_of(recipe).fit(recipe, means).items() if left_open(recipe, key)}
    assert chosen.keys() <= set(recipe.fitted), "a task chooses what its recipe says that it does"
    if not chosen:
        return recipe
    say("chosen by the data and the time; what stands in the recipe goes before it:")
    for line in told(chosen):
        say(f"  {line}")
    return filled(recipe, chosen, place="what was chosen by the data and the time")


def told(settings: Settings) -> Iterator[str]:
    """A line for each table, as a recipe would have it."""

    def table(item: tuple[str, Any]) -> str:
        return item[0].rpartition(".")[0]

    for name, items in groupby(settings.items(), key=table):
        values = ", ".join(f"{key.rpartition('.')[2]} = {toml.value(value)}" for key, value in items)
        yield f"{name} = {{ {values} }}" if name else values
