"""Every recipe resolves, builds and learns, and the commands in its comments fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import heedful
from heedful.configs.build import Sizes, build_model
from heedful.models.size import measure

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").rglob("*.toml"))
TINY = {
    "tokenizer.size": 40,
    "model.layers": 1,
    "model.d_model": 16,
    "data.max_length": 64,
    "data.test": "none",
    "training.steps": 2,
    "training.epochs": "none",
    "training.evaluate_every": 2,
    "training.average": 1,
    "training.batch_tokens": 300,
    "training.threads": 1,
}

TINIER = {
    "transformer": {"model.heads": 2, "model.d_ff": 16},
    "recurrent": {"model.d_embedding": 8},
    "convolutional": {},
}

name = pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)


@name
def test_it_resolves_and_describes_itself(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = heedful.load_recipe(path)
    size = recipe.tokenizer.size
    assert size is not None
    with torch.device("meta"):
        expected = measure(build_model(recipe.model, Sizes(size, size, recipe.data.max_length))).parameters
    from heedful.__main__ import main

    assert main(["describe", str(path)]) == 0
    assert f"parameters  {expected:,} " in capsys.readouterr().out


@name
def test_two_updates(path: Path, workshop: Path) -> None:
    text = workshop / "runs/tiny-text"
    places: list[str] = []
    for part in ("train", "validation"):
        pairs = [line.split("\t") for line in (text / f"{part}.tsv").read_text(encoding="utf-8").splitlines()]
        for column, side in enumerate(("source", "target")):
            file = text / f"{part}.{side}"
            file.write_text("".join(f"{pair[column]}\n" for pair in pairs), encoding="utf-8")
            places += [f"--data.{part}.{side}", str(file)]
    if path.stem == "tatoeba-en-de":
        places = [word for part in ("train", "validation") for word in (f"--data.{part}.path", f"{text}/{part}.tsv")]
    smaller = TINY | TINIER[heedful.load_recipe(path).model.kind]
    recipe = heedful.load_recipe(
        path, [*places, *(f"--{key}={value}" for key, value in smaller.items()), "--output", str(workshop / "run")]
    )
    outcome = heedful.train(recipe)
    final = json.loads((outcome.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert (final["kind"], final["step"]) == ("final", 2)
    assert final["loss"] > 1
    assert len(heedful.load(outcome.folder).translate(["a dog", "two cats"])) == 2


@name
def test_commands_in_comments(path: Path, check_commands: Callable[[str], int]) -> None:
    lines = [line[1:].strip() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    commands = [line.removesuffix(" ...") for line in lines if line.startswith(("heedful ", "torchrun "))]
    assert check_commands("\n".join(commands)) == len(commands)


def test_there_are_recipes() -> None:
    assert len(RECIPES) >= 10
