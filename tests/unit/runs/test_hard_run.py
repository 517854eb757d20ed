"""A run whose attention draws: its recipe, and that two sittings are one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heedful import RecipeError, load_recipe, train
from heedful.atomic_io import read_manifest
from heedful.recipes.load import dump
from heedful.runs.checkpoints import load_snapshot
from heedful.runs.load import open_run
from heedful.tasks.generation_objective import ReinforceCriterion

MODEL = """\
[model]
kind = "recurrent"
d_model = 12
reading = { kind = "luong", weights = "sampled" }

[training]
"""


@pytest.fixture
def hard(small: Path) -> Path:
    """The small recipe with another model."""
    text = small.read_text(encoding="utf-8")
    before, rest = text.split("[model]\n")
    small.write_text(before + MODEL + rest.split("[training]\n")[1], encoding="utf-8")
    return small


def fit(recipe: Path, *overrides: str) -> Path:
    return train(load_recipe(recipe, overrides), device="cpu").folder


def made(folder: Path) -> dict[str, bytes]:
    """The last checkpoint and the final model."""
    names = ["model.safetensors", *(f"checkpoints/step-00000012{end}.safetensors" for end in ("", ".training"))]
    return {name: (folder / name).read_bytes() for name in names}


def test_two_sittings_are_one_byte_for_byte(hard: Path) -> None:
    whole, parts = str(hard.parent / "whole"), str(hard.parent / "parts")
    fit(hard, "--output", whole)
    fit(hard, "--output", parts, "--training.steps", "8")
    assert read_manifest(Path(parts)).last == 8
    snapshot = load_snapshot(Path(parts))
    assert snapshot is not None
    assert float(snapshot.training["task.baseline"]) < -0.5
    fit(hard, "--output", parts)
    assert made(Path(parts)) == made(Path(whole))


def test_the_recipe_says_what_draws_learn(hard: Path) -> None:
    options = ("--training.reinforce.reward", "0.3", "--training.reinforce.baseline_decay", "0.7")
    folder = fit(hard, *options, "--training.steps", "1")
    run: Any = open_run(folder)
    task = run.task.build_objective(run, *([None] * 2), device="cpu")
    criterion = task.criterion
    assert isinstance(criterion, ReinforceCriterion)
    assert (criterion.reward, criterion.entropy, criterion.baseline.decay) == (0.3, 0.002, 0.7)


def test_defaults_are_written_out_and_may_be_given_where_attention_draws_alone(hard: Path) -> None:
    recipe = load_recipe(hard)
    assert "reinforce = { reward = 1.0, entropy = 0.002, baseline_decay = 0.9 }" in dump(recipe) or (
        "[training.reinforce]\nreward = 1.0\nentropy = 0.002\nbaseline_decay = 0.9" in dump(recipe)
    )
    hard.write_text(dump(recipe), encoding="utf-8")
    assert load_recipe(hard) == recipe
    for weights in ("softmax", "straight_through"):
        with pytest.raises(RecipeError, match=r"training\.reinforce trains sampled attention: set model"):
            load_recipe(hard, ["--model.reading.weights", weights])
    with pytest.raises(RecipeError, match=r"training\.reinforce\.baseline_decay = 1 must be below 1"):
        load_recipe(hard, ["--training.reinforce.baseline_decay", "1"])
