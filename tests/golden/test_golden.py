"""Runs that the code before the second house trained: this code reads them, answers as it did and trains them on.

`make.py` says how they were made, and never makes them again.
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
from golden.asking import ask, differences, printed

import heedful
from heedful.__main__ import main
from heedful.runs.load import open_run

HERE = Path(__file__).resolve().parent
EXPECTED: dict[str, Any] = {
    path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(HERE.glob("*/expected.json"))
}
COMPLETE = [name for name, expected in EXPECTED.items() if "resumed" in expected]

# Everything is fp32. Computing in fp64, or with kernels that know neither AVX nor oneDNN's fast paths, was measured to
# move no number above 0.1 by more than 5e-6 of itself, and none below by more than 5e-7.
CLOSE = {"relative": 1e-4, "absolute": 1e-5}
# The command line rounds to four digits after the point, and a number may stand where it rounds to either side.
ROUNDED = {"relative": 1e-4, "absolute": 1.01e-4}
# Adam divides by the root of its second moments, so two updates make such differences larger.
TRAINED = {"relative": 1e-3, "absolute": 1e-4}

SAME = {"relative": 0.0, "absolute": 0.0}
PATHS = ("path", "source", "target", "folder", "labels")

Say = Callable[..., tuple[str, str]]


def alike(found: Any, expected: Any, *, relative: float, absolute: float) -> None:
    """Texts are the same and numbers close."""
    as_read = json.loads(json.dumps(found))
    assert list(differences(as_read, expected, relative=relative, absolute=absolute)) == []


def known(found: Any, expected: Any) -> Any:
    """What is printed without the scores that there were not then."""
    if not isinstance(found, dict) or not isinstance(expected, dict):
        return found
    kept = dict(found)
    for key in ("scores", "intervals", "comparisons"):
        names = [each["name"] for each in expected.get(key) or ()]
        if names:
            kept[key] = [each for each in found[key] if each["name"] in names]
    return kept


def placed(table: Any, folder: Path) -> Any:
    """A recipe whose texts are counted from a folder."""
    if not isinstance(table, dict):
        return table
    return {
        key: str((folder / each).resolve()) if key in PATHS else placed(each, folder) for key, each in table.items()
    }


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    """Runs a command in this process: what it prints, and what it says of its work."""

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
    """A copy, which may be changed."""
    return shutil.copytree(HERE / name, tmp_path / name)


def test_there_is_a_run_of_each_task_and_family() -> None:
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


@pytest.mark.parametrize("name", EXPECTED)
def test_an_old_run_answers_as_it_did(name: str) -> None:
    models: dict[int | None, Any] = {}
    for each in EXPECTED[name]["answers"]:
        question = each["question"]
        step = question.get("step")
        if step not in models:
            models[step] = heedful.load(HERE / name / "run", device="cpu", step=step)
        alike(ask(models[step], question), each["answer"], **CLOSE)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_old_run_knows_its_recipe(name: str) -> None:
    """Keys that came later may stand beside the old ones."""
    recipe = open_run(HERE / name / "run").recipe
    alike(recipe.model_dump(mode="json", exclude_none=True), EXPECTED[name]["recipe"], **SAME)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_recipe_of_an_old_run_means_what_it_meant(name: str) -> None:
    """The user's file: what was left to defaults is what it was."""
    recipe = heedful.load_recipe(HERE / name / "recipe.toml", ["--output", "run"])
    if getattr(recipe, "init", None) is not None:
        return  # vocabulary and architecture are those of init, which is asked for in training
    alike(recipe.model_dump(mode="json", exclude_none=True), placed(EXPECTED[name]["recipe"], HERE / name), **SAME)


@pytest.mark.parametrize("name", EXPECTED)
def test_commands_print_what_they_printed(name: str, folder: Path, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for each in EXPECTED[name]["commands"]:
        out, _ = say(*each["words"], "--device", "cpu")
        alike(known(printed(out), each["printed"]), each["printed"], **ROUNDED)


@pytest.mark.parametrize("name", COMPLETE)
def test_an_old_run_that_was_moved_with_its_text_is_trained_on(name: str, folder: Path, say: Say) -> None:
    """Optimizer, averages, baseline and place in the text are taken up: two more updates end where they ended."""
    resumed = EXPECTED[name]["resumed"]
    words = ("--output", folder / "run", "--training.steps", resumed["steps"], "--device", "cpu")
    _, told = say("train", folder / "recipe.toml", *words)
    assert "resuming this run" in told
    assert "again" not in told, "its text is still encoded"
    *_, last = (folder / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    alike(json.loads(last), resumed["final"], **TRAINED)


@pytest.mark.parametrize("name", COMPLETE)
def test_an_old_run_is_trained_on_where_it_is(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    recipe = open_run(Path("run")).recipe
    resumed = EXPECTED[name]["resumed"]
    training = recipe.training.model_copy(update={"steps": resumed["steps"]})
    said: list[str] = []
    heedful.train(recipe.model_copy(update={"training": training}), device="cpu", say=said.append)
    assert said[0] == "resuming this run"
    *_, last = Path("run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    alike(json.loads(last), resumed["final"], **TRAINED)
