"""Options of a command line that change a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heedful.recipes.load import load_recipe

RECIPE = """
[data]
train = { source = "train.en", target = "train.de" }
validation = { source = "val.en", target = "val.de" }
[training]
steps = 10
"""


@pytest.fixture
def recipe_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


def test_none_is_a_text_where_a_key_needs_one(recipe_path: Path) -> None:
    recipe: Any = load_recipe(recipe_path, overrides=["--output", "none", "--training.clip", "none"])
    assert recipe.output == Path("none")
    assert recipe.training.clip is None


@pytest.mark.parametrize("reverse", [False, True])
def test_an_outer_kind_is_set_before_the_kind_of_its_part(recipe_path: Path, reverse: bool) -> None:
    words = [["--model.kind", "recurrent"], ["--model.reading.kind", "luong"]]
    options = [word for pair in (reversed(words) if reverse else words) for word in pair]
    recipe: Any = load_recipe(recipe_path, overrides=options)
    assert recipe.model.kind == "recurrent"
    assert recipe.model.reading.kind == "luong"
