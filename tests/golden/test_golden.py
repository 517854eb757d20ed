"""Runs that an older version trained: the current version loads them, gives the same answers and continues training.

`make.py` describes how they were made; they are never made again.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden.asking import ask, find_differences, parse_printed

import heedful
from heedful.__main__ import main
from heedful.runs.load import open_run

HERE = Path(__file__).resolve().parent
EXPECTED: dict[str, Any] = {
    path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(HERE.glob("*/expected.json"))
}
COMPLETE = [name for name, expected in EXPECTED.items() if "resumed" in expected]

# Everything is fp32. Measured: computing in fp64, or with kernels without AVX and oneDNN's fast paths, changes no
# number above 0.1 by more than 5e-6 of itself, and none below by more than 5e-7.
CLOSE = {"relative": 1e-4, "absolute": 1e-5}
# The command line rounds to four decimal places, and a number may be at the border of rounding.
ROUNDED = {"relative": 1e-4, "absolute": 1.01e-4}
# Adam divides by the root of its second moments, so two updates make such differences larger.
TRAINED = {"relative": 1e-3, "absolute": 1e-4}

SAME = {"relative": 0.0, "absolute": 0.0}
PATHS = ("path", "source", "target", "folder", "labels")

Say = Callable[..., tuple[str, str]]


def assert_alike(found: Any, expected: Any, *, relative: float, absolute: float) -> None:
    """Assert that texts are equal and numbers are close."""
    as_read = json.loads(json.dumps(found))
    assert list(find_differences(as_read, expected, relative=relative, absolute=absolute)) == []


def remove_new_scores(found: Any, expected: Any) -> Any:
    """Remove scores that the older version did not print."""
    if not isinstance(found, dict) or not isinstance(expected, dict):
        return found
    kept = dict(found)
    for key in ("scores", "intervals", "comparisons"):
        names = [each["name"] for each in expected.get(key) or ()]
        if names:
            kept[key] = [each for each in found[key] if each["name"] in names]
    return kept


def resolve_paths(table: Any, folder: Path) -> Any:
    """Resolve the paths of a recipe from a folder."""
    if not isinstance(table, dict):
        return table
    return {
        key: str((folder / each).resolve()) if key in PATHS else resolve_paths(each, folder)
        for key, each in table.items()
    }


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    """Return a function that runs a command in this process and returns its output and its messages."""

    def run(*words: object) -> tuple[str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        monkeypatch.setattr(type(sys.stdout), "reconfigure", lambda *_, **__: None, raising=False)
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return captured.out, captured.err

    return run


@pytest.fixture
def folder(name: str, tmp_path: Path) -> Path:
    """Return a copy of the folder, which may be changed."""
    return shutil.copytree(HERE / name, tmp_path / name)


def test_there_is_a_run_of_each_task_and_architecture() -> None:
    kinds = {(recipe["task"], recipe["model"]["kind"]) for recipe in (each["recipe"] for each in EXPECTED.values())}
    assert kinds >= {("translation", kind) for kind in ("transformer", "recurrent", "convolutional")}
    assert kinds >= {("language_modelling", kind) for kind in ("transformer", "recurrent")}
    assert kinds >= {("tagging", kind) for kind in ("transformer", "recurrent")}
    assert kinds >= {("classification", kind) for kind in ("transformer", "recurrent", "conditional")}
    assert kinds >= {("glimpses", "glimpses"), ("captioning", "captioner")}
    assert kinds >= {(task, "transformer") for task in ("pretraining", "spans", "matching", "multitask")}
    assert ("stories", "memory_network") in kinds
    assert kinds >= {("conversation", kind) for kind in ("transformer", "decoder_only")}
    assert len(COMPLETE) >= 4


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        *((name, None) for name in EXPECTED),
        *(pytest.param(name, "torch-graphs", marks=pytest.mark.slow) for name in EXPECTED),
    ],
)
def test_an_old_run_gives_the_same_answers(name: str, engine: Any) -> None:
    models: dict[int | None, Any] = {}
    for each in EXPECTED[name]["answers"]:
        question = each["question"]
        step = question.get("step")
        if step not in models:
            models[step] = heedful.load(HERE / name / "run", device="cpu", step=step, engine=engine)
        assert_alike(ask(models[step], question), each["answer"], **CLOSE)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_old_run_keeps_its_recipe(name: str) -> None:
    """Newer keys may be added to the old ones."""
    recipe = open_run(HERE / name / "run").recipe
    assert_alike(recipe.model_dump(mode="json", exclude_none=True), EXPECTED[name]["recipe"], **SAME)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_recipe_of_an_old_run_has_the_same_meaning(name: str) -> None:
    """The defaults of the user's recipe have not changed."""
    recipe = heedful.load_recipe(HERE / name / "recipe.toml", ["--output", "run"])
    if getattr(recipe, "init", None) is not None:
        return  # vocabulary and architecture come from init, which is opened for training
    assert_alike(
        recipe.model_dump(mode="json", exclude_none=True), resolve_paths(EXPECTED[name]["recipe"], HERE / name), **SAME
    )


@pytest.mark.parametrize("name", EXPECTED)
def test_commands_print_the_same(name: str, folder: Path, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for each in EXPECTED[name]["commands"]:
        out, _ = say(*each["words"], "--device", "cpu")
        assert_alike(remove_new_scores(parse_printed(out), each["printed"]), each["printed"], **ROUNDED)


@pytest.mark.parametrize("name", COMPLETE)
def test_an_old_run_that_was_moved_with_its_text_continues_training(name: str, folder: Path, say: Say) -> None:
    """Optimizer, averages, baseline and position in the text are restored: two more updates give the same weights."""
    resumed = EXPECTED[name]["resumed"]
    words = ("--output", folder / "run", "--training.steps", resumed["steps"], "--device", "cpu")
    _, told = say("train", folder / "recipe.toml", *words)
    assert "resuming this run" in told
    assert "again" not in told, "its text is still encoded"
    *_, last = (folder / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert_alike(json.loads(last), resumed["final"], **TRAINED)


@pytest.mark.parametrize("name", COMPLETE)
def test_an_old_run_continues_training_in_its_place(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    recipe = open_run(Path("run")).recipe
    resumed = EXPECTED[name]["resumed"]
    training = recipe.training.model_copy(update={"steps": resumed["steps"]})
    said: list[str] = []
    heedful.train(recipe.model_copy(update={"training": training}), device="cpu", say=said.append)
    assert said[0] == "resuming this run"
    *_, last = Path("run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert_alike(json.loads(last), resumed["final"], **TRAINED)
