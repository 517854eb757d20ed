"""What `load` gives is of the kind that was asked for, or the error says what it is; type checkers know it as well."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

import heedful
from heedful.errors import RunError
from heedful.recipes.recipe import get_recipe_class
from heedful.registry import list_tasks
from heedful.tasks.predictor import MultiHeadPredictor

ROOT = Path(__file__).parents[3]
TYPED = """\
from typing import Any, assert_type

import heedful

assert_type(heedful.load("run"), Any)
assert_type(heedful.load("run", task="topic"), Any)
translator = heedful.load("one", "other", kind=heedful.Translator, device="cpu")
assert_type(translator, heedful.Translator)
assert_type(translator.translate(["a"])[0].text, str)
assert_type(heedful.load("run", kind=heedful.Tagger, task="words", step=3), heedful.Tagger)
for kind in (heedful.TextGenerator, heedful.TextGenerator):
    assert_type(heedful.load("run", kind=kind), heedful.TextGenerator)
heedful.load("run", kind=heedful.Classifier).translate(["a"])
heedful.load("run", kind="Translator")
"""


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> Callable[..., MultiHeadPredictor]:
    """What is loaded has several tasks, with these faces."""

    def make(**faces: object) -> MultiHeadPredictor:
        heads = MultiHeadPredictor(faces, location="runs/many")
        monkeypatch.setattr("heedful.runs.load._load_predictor", lambda *_, **__: heads)
        return heads

    return make


def test_a_kind_is_given_or_the_other_one_is_named(trained: Path, tuned: Callable[[str], Path]) -> None:
    assert isinstance(heedful.load(trained, kind=heedful.Translator), heedful.Translator)
    with pytest.raises(RunError) as failed:
        heedful.load(trained, kind=heedful.Tagger)
    assert str(failed.value) == f"{trained}: is a Translator and not a Tagger; load it with kind=heedful.Translator"
    spans = (
        r"is a QuestionAnsweringPredictor and not a Classifier; "
        r"load it with kind=heedful\.QuestionAnsweringPredictor$"
    )
    with pytest.raises(RunError, match=spans):
        heedful.load(tuned("spans"), kind=heedful.Classifier)
    with pytest.raises(RunError, match="has one task, which has no name; leave out task='words'"):
        heedful.load(trained, task="words")


def test_a_kind_of_somebody_else_is_named_without_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    class Judge: ...

    class Umpire: ...

    monkeypatch.setattr("heedful.runs.load._load_predictor", lambda *_, **__: Judge())
    assert isinstance(heedful.load("runs/judged", kind=Judge), Judge)
    with pytest.raises(RunError, match=r"runs/judged: is a Judge and not a TextGenerator; load it with kind=Judge$"):
        heedful.load("runs/judged", kind=heedful.TextGenerator)
    monkeypatch.setattr("heedful.runs.load._load_predictor", lambda *_, **__: Umpire())
    with pytest.raises(RunError, match=r"runs/judged: is an Umpire and not a TextGenerator; load it with kind=Umpire$"):
        heedful.load("runs/judged", kind=heedful.TextGenerator)


def test_one_of_several_tasks_by_kind_or_name(several: Callable[..., MultiHeadPredictor]) -> None:
    heads = several(words=1.5, names=2.5, topic="a")
    assert heedful.load("runs/many") is heads
    assert heedful.load("runs/many", kind=MultiHeadPredictor) is heads
    assert heedful.load("runs/many", kind=str) == "a"
    assert heedful.load("runs/many", task="names") == 2.5
    assert heedful.load("runs/many", kind=float, task="names") == 2.5
    with pytest.raises(RunError, match=r"words \(float\), names \(float\), topic \(str\), of which several are of kind "
                       r"float; choose one with task="):  # fmt: skip
        heedful.load("runs/many", kind=float)
    with pytest.raises(RunError, match="of which none is of kind bytes; request one of those"):
        heedful.load("runs/many", kind=bytes)
    wrong_kind = "runs/many: topic is a str and not a float; load it with task='topic', kind=str"
    with pytest.raises(RunError, match=wrong_kind):
        heedful.load("runs/many", kind=float, task="topic")
    with pytest.raises(RunError, match="has no task 'topics'; choose one of words, names, topic"):
        heedful.load("runs/many", task="topics")


@pytest.mark.parametrize("task", [name for name, place in list_tasks().items() if place.startswith("heedful.")])
def test_every_kind_has_a_public_name(task: str) -> None:
    module, _, name = get_recipe_class(task).made_by.partition(":")
    kind = getattr(__import__(module, fromlist=[name]), name)
    for face in re.findall(r"\w+", str(inspect.signature(type(kind).build_predictor).return_annotation)):
        assert face in heedful.__all__
        assert getattr(heedful, face).__name__ == face


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed")
def test_type_checkers_know_what_was_loaded(tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(TYPED, encoding="utf-8")
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--follow-imports", "silent", "--no-warn-unreachable"]
    command = [sys.executable, "-m", "mypy", *options, str(tmp_path / "typed.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [re.sub(r"^.*?py:(\d+): error: ", r"\1 ", line) for line in lines] == [
        '13 "Classifier" has no attribute "translate"  [attr-defined]',
        '14 No overload variant of "load" matches argument types "str", "str"  [call-overload]',
    ], done.stdout + done.stderr
