"""Runs that began before some keys of today's recipes were there behave as they did."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heedful import RunError, load_recipe, train
from heedful.atomic_io import compute_digest, read_manifest, write_json, write_manifest
from heedful.recipes.load import build_stored_recipe
from heedful.recipes.recipe import Recipe
from heedful.runs.checkpoints import read_weights
from heedful.runs.load import open_run, read_run_recipe, resume_run_recipe

RECURRENT = ("--model.kind", "recurrent", "--model.d_model", "8")
LUONG = ("--model.reading.kind", "luong", "--model.reading.score", "additive")
OLDER = {
    "bahdanau": ((*RECURRENT, "--model.reading.kind", "bahdanau"), "reading", "alignment_bias", True),
    "luong": ((*RECURRENT, *LUONG), "reading", "alignment_bias", True),
    "heads": (("--model.self_attention.score", "additive"), "self_attention", "alignment_bias", True),
    "integer": (("--model.positions.kind", "integer"), "positions", "first", 0),
    "unit_interval": (("--model.positions.kind", "unit_interval"), "positions", "of", "longest"),
}


def fit(recipe: Path, *overrides: str, **more: Any) -> Path:
    return train(load_recipe(recipe, overrides), device="cpu", **more).folder


def age(folder: Path, table: str, key: str) -> None:
    """The run as it was stored before there was a key."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del config["recipe"]["model"][table][key]
    write_json(folder / "config.json", config)
    manifest = read_manifest(folder)
    files = {**manifest.files, "config.json": compute_digest(folder / "config.json")}
    write_manifest(folder, replace(manifest, files=files))


@pytest.mark.slow
@pytest.mark.parametrize("name", OLDER)
def test_an_older_run_goes_on_with_the_command_that_began_it(
    small: Path, another: Callable[[str], Path], name: str
) -> None:
    asked, table, key, meant = OLDER[name]
    explicit = (*asked, f"--model.{table}.{key}", str(meant).lower())
    whole = fit(small, *explicit)
    parts = another("parts")
    folder = fit(parts, *explicit, "--training.steps", "6")
    age(folder, table, key)
    assert getattr(getattr(open_run(folder).recipe.model, table), key) == meant
    fit(parts, *asked)
    expected, found = read_weights(whole, step=12), read_weights(folder, step=12)
    assert all(found[name].equal(tensor) for name, tensor in expected.items())
    today = fit(another("today"), *asked)
    new = read_weights(today, step=12)
    assert any(new.keys() != expected.keys() or not new[name].equal(tensor) for name, tensor in expected.items())


def test_keys_that_an_older_run_lacks_keep_their_former_meaning_once_it_was_trained(small: Path) -> None:
    asked = ("--model.positions.kind", "integer")
    folder = fit(small, *asked, "--model.positions.first", "0", "--training.steps", "2")
    age(folder, "positions", "first")
    recipe: Any = load_recipe(small, asked)
    trained: Any = resume_run_recipe(folder, recipe)
    assert (trained.model.positions.first, recipe.model.positions.first) == (0, 1)
    write_manifest(folder, replace(read_manifest(folder), last=None))
    assert resume_run_recipe(folder, recipe) == recipe


def test_an_older_run_is_not_taken_for_one_of_another_recipe(small: Path) -> None:
    asked = ("--model.positions.kind", "integer")
    folder = fit(small, *asked, "--model.positions.first", "0", "--training.steps", "2")
    age(folder, "positions", "first")
    with pytest.raises(RunError, match=r"recipe differs in model\.positions\.first;"):
        fit(small, *asked, "--model.positions.first", "1")
    with pytest.raises(RunError, match=r"recipe differs in model\.positions\.first, model\.positions\.kind;"):
        fit(small, "--model.positions.kind", "none")


def test_a_stored_recipe_is_built_once_until_its_file_changes(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    built: list[str] = []

    def build(table: Mapping[str, Any], *, source: str) -> Recipe:
        built.append(source)
        return build_stored_recipe(table, source=source)

    monkeypatch.setattr("heedful.runs.load.build_stored_recipe", build)
    recipe = read_run_recipe(folder)
    assert open_run(folder).recipe is recipe
    assert built == [str(folder / "config.json")]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["recipe"]["seed"] = 7
    write_json(folder / "config.json", config)
    with pytest.raises(RunError, match="its sha256 differs"):
        read_run_recipe(folder)
    manifest = read_manifest(folder)
    write_manifest(folder, manifest.with_file("config.json", compute_digest(folder / "config.json")))
    assert read_run_recipe(folder).seed == 7
