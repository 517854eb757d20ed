"""What a run chooses when it is made, tells, and keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from heedful import RunError, load_recipe, train
from heedful.errors import DataError
from heedful.recipes.recipe import Recipe
from heedful.runs.load import open_run
from heedful.runs.resolve import fit_recipe, format_settings

FEW = ("--training.steps", "2", "--training.evaluate_every", "1")


@pytest.fixture
def open_recipe(tmp_path: Path) -> Path:
    """A recipe that says nothing of the model."""
    for side, word in (("en", "dog"), ("de", "Hund")):
        for part, lines in (("train", 80), ("validation", 8)):
            text = "".join(f"{word} {number % 7} {word[::-1]} {number}\n" for number in range(lines))
            (tmp_path / f"{part}.{side}").write_text(text)
    path = tmp_path / "recipe.toml"
    path.write_text(
        f'output = "{tmp_path}/run"\n[data]\ntrain = {{ source = "train.en", target = "train.de" }}\n'
        'validation = { source = "validation.en", target = "validation.de" }\n[training]\nminutes = 4\n'
    )
    return path


def kept(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "config.json").read_text())["recipe"]
    return content


def whole(recipe: Path, *words: str) -> Recipe:
    return fit_recipe(load_recipe(recipe, words), device=torch.device("cpu"))


def test_what_is_chosen_is_told_kept_and_what_is_trained(open_recipe: Path) -> None:
    lines: list[str] = []
    found = train(load_recipe(open_recipe, FEW), say=lines.append, device="cpu")
    expected = whole(open_recipe, *FEW)
    assert open_run(found.folder).recipe == expected
    assert expected.model.d_model != type(expected.model)().d_model, "something else than the fixed default"
    assert lines[0] == "chosen from the data and the time; keys of the recipe take precedence:"
    inside = kept(found.folder)["model"]
    assert f"  model = {{ d_model = {inside['d_model']}, heads = {inside['heads']}, " in lines[2]
    assert not any("evaluate_every" in line for line in lines), "that was given"


def test_what_is_given_goes_before_what_would_be_chosen(open_recipe: Path) -> None:
    given = whole(open_recipe, "--model.dropout", "0.42", "--training.batch_tokens", "99")
    assert (given.model.model_dump()["dropout"], given.training.batch_tokens) == (0.42, 99)
    assert given.model.d_model == whole(open_recipe).model.d_model


def test_who_asks_for_more_threads_gets_what_needs_more_time(open_recipe: Path) -> None:
    few, many = (
        whole(open_recipe, "--training.minutes", "0.001", "--training.threads", str(threads)).model.model_dump()
        for threads in (1, 64)
    )
    assert few["d_ff"] < many["d_ff"]


def test_who_says_a_size_has_the_rest_of_the_model_as_documented(open_recipe: Path) -> None:
    words = ("--model.d_ff", "32")
    assert whole(open_recipe, *words).model == load_recipe(open_recipe, words).model
    assert whole(open_recipe, *words).training != load_recipe(open_recipe, words).training


@pytest.mark.parametrize(
    "words", [("--model.d_ff", "32", "--training.schedule.warmup", "9"), ("--model.kind", "recurrent")]
)
def test_sizes_with_rates_or_another_family_leave_the_fixed_defaults(open_recipe: Path, words: tuple[str, ...]) -> None:
    assert whole(open_recipe, *words) == load_recipe(open_recipe, words)


def test_what_was_chosen_stays_when_the_run_goes_on(open_recipe: Path) -> None:
    """Also with more time, or where the text has changed by then."""
    recipe = load_recipe(open_recipe, FEW)
    folder = train(recipe, device="cpu").folder
    before = kept(folder)
    longer = load_recipe(open_recipe, ["--training.steps", "4", "--training.minutes", "900"])
    lines: list[str] = []
    train(longer, say=lines.append, device="cpu")
    assert lines[0] == "resuming this run"
    assert kept(folder) == before
    assert json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["step"] == 4
    with pytest.raises(RunError, match=r"differs in model\.d_model, model\.heads; choose another folder"):
        train(load_recipe(open_recipe, [*FEW, "--model.d_model", "996", "--model.heads", "3"]), device="cpu")


def test_a_run_of_which_nothing_was_trained_is_chosen_for_anew(open_recipe: Path) -> None:
    with pytest.raises(DataError):
        train(load_recipe(open_recipe, ["--data.validation.target", os.devnull]), device="cpu")
    folder = load_recipe(open_recipe).output
    for side, word in (("en", "dog"), ("de", "Hund")):
        text = "".join(f"{word} {chr(97 + number % 26)}{number}\n" for number in range(9000))
        (open_recipe.parent / f"train.{side}").write_text(text)
    train(load_recipe(open_recipe, FEW), device="cpu")
    assert open_run(folder).recipe == whole(open_recipe, *FEW)


def test_text_that_is_missing_is_told_before_anything_is_made(open_recipe: Path) -> None:
    (open_recipe.parent / "train.de").unlink()
    with pytest.raises(DataError, match=r"train\.de: there is no such file"):
        train(load_recipe(open_recipe), device="cpu")


@pytest.mark.slow
def test_print_config_shows_what_would_be_chosen(open_recipe: Path) -> None:
    command = [sys.executable, "-m", "heedful", "train", str(open_recipe), "--print-config", "--device", "cpu"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    copy = open_recipe.parent / "copy.toml"
    copy.write_text(shown)
    assert load_recipe(copy) == whole(open_recipe)


def test_each_table_is_told_on_a_line() -> None:
    settings = {"seed": 1, "model.d_model": 8, "model.tie": "none", "training.schedule": {"kind": "linear"}}
    assert list(format_settings(settings)) == [
        "seed = 1",
        'model = { d_model = 8, tie = "none" }',
        'training = { schedule = { kind = "linear" } }',
    ]
