"""A recipe says what its finished model is measured and used with; whoever uses it may say otherwise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import heedful
from heedful.engines import int8, select_engine
from heedful.errors import RecipeError
from heedful.runs.load import get_engine, open_run
from heedful.runs.load import load_trained_model as trained_model


@pytest.fixture(autouse=True)
def _small_matrices_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "MIN_ELEMENTS", 1)


def is_of_bytes(model: nn.Module) -> bool:
    return any(isinstance(module, int8.Int8Linear) for module in model.modules())


def loaded(run: Path, **how: str) -> nn.Module:
    return heedful.load(run, kind=heedful.Translator, device="cpu", **how).models[0]


@pytest.fixture
def rounded(trained: Path, tmp_path: Path) -> Path:
    """A run that was trained to be used with bytes, and measured with them at its end."""
    recipe = heedful.load_recipe(trained.parent / "small.toml", ["--engine", "int8", "--training.steps", "2"])
    return heedful.train(recipe.model_copy(update={"output": tmp_path / "rounded"}), device="cpu").folder


def test_it_counts_where_nobody_says_otherwise(rounded: Path, trained: Path, tmp_path: Path) -> None:
    assert is_of_bytes(loaded(rounded))
    assert not is_of_bytes(loaded(rounded, engine="torch"))
    assert not is_of_bytes(loaded(trained))
    assert is_of_bytes(trained_model(open_run(rounded), device=torch.device("cpu")))
    assert get_engine(open_run(rounded).recipe, torch.device("cuda")) is None, "elsewhere it is not meant"


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The engines of models that were arranged since, in their order."""
    seen: list[str | None] = []
    arranged = select_engine.prepare_for_inference

    def noting(*given: Any, **how: Any) -> nn.Module:
        seen.append(how["engine"])
        return arranged(*given, **how)

    monkeypatch.setattr("heedful.runs.load.prepare_for_inference", noting)
    return seen


def test_the_final_model_is_measured_by_it(rounded: Path, engines: list[str | None]) -> None:
    recipe = open_run(rounded).recipe
    longer = recipe.model_copy(update={"training": recipe.training.model_copy(update={"steps": 3})})
    heedful.train(longer, device="cpu")
    assert engines == ["int8"]


def test_it_may_change_between_two_sittings(rounded: Path, engines: list[str | None]) -> None:
    recipe = open_run(rounded).recipe
    for steps, engine in ((3, None), (4, "torch"), (5, "int8")):
        training = recipe.training.model_copy(update={"steps": steps})
        heedful.train(recipe.model_copy(update={"engine": engine, "training": training}), device="cpu")
    assert engines == [None, "torch", "int8"], "each sitting measures its model by its own"


@pytest.mark.parametrize(("named", "bytes_"), [("torch", True), ("auto", None), ("int8", True)])
def test_a_quantized_run_computes_with_its_bytes(
    named: str, bytes_: bool | None, rounded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_run(rounded)
    monkeypatch.setattr(
        "heedful.runs.export.open_run",
        lambda _: type(opened)(rounded, opened.recipe.model_copy(update={"engine": named}), opened.vocabularies),
    )
    heedful.quantize(rounded, tmp_path / "small")
    assert open_run(tmp_path / "small").recipe.engine == (None if named == "torch" else named)
    assert bytes_ is None or is_of_bytes(loaded(tmp_path / "small"))


def test_what_is_not_here_is_told_before_anything_is_learned(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select_engine, "load_library", lambda: None)
    recipe = heedful.load_recipe(trained.parent / "small.toml", ["--engine", "native"])
    with pytest.raises(RecipeError, match=re.escape("engine 'native': needs heedful-native, which is not installed")):
        heedful.train(recipe.model_copy(update={"output": tmp_path / "run"}), device="cpu")
    assert not (tmp_path / "run").exists()


def test_an_engine_that_is_none_is_a_mistake_in_the_recipe(trained: Path) -> None:
    with pytest.raises(
        RecipeError, match=r'engine = "onnx" must be one of "torch", "torch-bfloat16", .*, "int8", "native"'
    ):
        heedful.load_recipe(trained.parent / "small.toml", ["--engine", "onnx"])
