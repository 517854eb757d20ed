"""`heedful describe`: how large a recipe's model is, without allocating it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from heedful.cli.arguments import parse
from heedful.configs.run import load_recipe
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.models.size import Size


@dataclass(frozen=True)
class Arguments:
    """Layers, shapes, parameters, FLOPs per token and memory of a recipe's model; nothing is allocated.

    Any key of the recipe can be changed: --model.d_model 512 --tokenizer.size 37000
    """

    recipe: Annotated[Path, tyro.conf.Positional]
    """TOML file of a run"""
    length: int = 25
    """tokens in a sentence, for the cost of attention"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given, overrides = parse(Arguments, arguments, program="heedful describe", extra=True)
    recipe = load_recipe(given.recipe, overrides)
    if given.length < 1:
        raise RecipeError(f"--length: {given.length}; a sentence has at least 1 token")

    vocabulary = recipe.tokenizer.size
    if vocabulary is None:
        raise RecipeError(
            f"{given.recipe}: a vocabulary of all {recipe.tokenizer.kind} is as large as the text makes it; "
            "say how large with --tokenizer.size"
        )

    import torch

    from heedful.configs.build import Sizes, build_model
    from heedful.models.size import measure

    sizes = Sizes(vocabulary, vocabulary, recipe.data.max_length)
    with torch.device("meta"):
        size = measure(build_model(recipe.model, sizes), length=given.length)
    _show(size)
    return 0


def _show(size: Size) -> None:
    """Plain lines, whatever the terminal's width."""
    rows = [
        (part.name, " x ".join(map(str, part.shape)), f"= {part.tied_to}" if part.tied_to else f"{part.parameters:,}")
        for part in size.parts
    ]
    name, shape = (max(len(row[column]) for row in rows) for column in (0, 1))
    for row in rows:
        print(f"{row[0]:<{name}}  {row[1]:<{shape}}  {row[2]:>12}")
    mib = 2**20
    print(f"\nparameters  {size.parameters:,} ({size.parameters / 1e6:.1f}M)")
    print(f"FLOPs       {size.forward_flops / 1e6:,.1f}M to translate, {size.training_flops / 1e6:,.1f}M to train")
    print(f"            (for one source and one target token, in sentences of {size.length})")
    weights, training = size.weight_bytes / mib, size.training_bytes / mib
    print(f"memory      {weights:,.1f} MiB of weights, {training:,.1f} MiB in training")
    print("            (fp32, activations aside)")
