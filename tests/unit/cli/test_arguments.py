from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass
from typing import Annotated

import pytest
import tyro

from heedful.cli.arguments import parse, parse_apart
from heedful.errors import RecipeError


@dataclass(frozen=True)
class Baking:
    """Bakes bread.

    Slowly.
    """

    flour: tyro.conf.Positional[str]
    """what to bake from"""
    hours: int = 2
    """how long"""
    dark_crust: bool = False
    """whether to leave it in for longer"""
    salt: Annotated[float | None, tyro.conf.arg(aliases=["-s", "--sodium"])] = None
    """grams"""


def test_fields_become_options() -> None:
    words = ["rye", "--hours", "3", "--dark-crust", "-s", "1.5"]
    assert parse(Baking, words, program="bake") == Baking("rye", 3, True, 1.5)
    assert parse_apart(Baking, ["rye"], program="bake") == (Baking("rye"), [])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("rye --hours x", "Error parsing --hours: invalid literal for int() with base 10: 'x'"),
        (
            "rye --huors 3",
            "Unrecognized options: --huors, 3; Perhaps you meant: --hours INT how long (default: 2)",
        ),
        ("rye oat", "Unrecognized options: oat"),
        ("--hours 3", "Missing from bake: STR what to bake from (required)"),
    ],
)
@pytest.mark.parametrize("columns", ["30", "200"])
def test_misuse_is_told_in_one_line(
    words: str,
    sentence: str,
    columns: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(RecipeError) as caught:
        parse(Baking, words.split(), program="bake")
    assert str(caught.value) == f"bake: {sentence}; see bake --help"
    assert capsys.readouterr() == ("", "")


class _Terminal(io.StringIO):
    """Standard output as a terminal that knows colours and lines to draw with."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", ["20", None])
def test_misuse_is_told_alike_on_a_terminal(columns: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", _Terminal())
    monkeypatch.setattr(sys, "stderr", _Terminal())
    for name, value in {"TERM": "xterm-256color", "FORCE_COLOR": "1", "COLUMNS": columns}.items():
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    long = "x" * 90
    with pytest.raises(RecipeError) as caught:
        parse(Baking, ["rye", "--huors", long], program="bake")
    told = f"Unrecognized options: --huors, {long}; Perhaps you meant: --hours INT how long (default: 2)"
    assert str(caught.value) == f"bake: {told}; see bake --help"
    assert (sys.stdout.getvalue(), sys.stderr.getvalue(), os.environ.get("COLUMNS")) == ("", "", columns)  # type: ignore[attr-defined]
    with pytest.raises(SystemExit):
        parse(Baking, ["--help"], program="bake")
    assert "\x1b[" in sys.stdout.getvalue(), "help keeps its colours"  # type: ignore[attr-defined]


def test_help_is_made_of_docstrings(capsys: pytest.CaptureFixture[str]) -> None:
    for read in (parse, parse_apart):
        with pytest.raises(SystemExit) as caught:
            read(Baking, ["--help"], program="bake")  # type: ignore[operator]
        assert caught.value.code == 0
        shown = capsys.readouterr().out
        assert "usage: bake" in shown
        for text in (
            "Bakes bread.",
            "Slowly.",
            "what to bake from",
            "--dark-crust",
            "whether to leave it in",
            "-s",
        ):
            assert text in shown


@pytest.mark.parametrize(
    ("words", "others"),
    [
        ("rye --training.steps 5 --hours 3", "--training.steps 5"),
        ("--seed 3 rye --hours 3", "--seed 3"),
        ("--hours 3 --a.b=1 --training.tensorboard --x.y -2 rye", "--a.b=1 --training.tensorboard --x.y -2"),
        ("rye --model.hours 9 --hours=3 --model.d-model 4", "--model.hours 9 --model.d-model 4"),
        ("rye --hours 3 --training.tensorboard", "--training.tensorboard"),
    ],
)
def test_options_of_others_are_set_apart(words: str, others: str) -> None:
    assert parse_apart(Baking, words.split(), program="bake") == (Baking("rye", 3), others.split())


def test_own_options_are_never_taken_for_others() -> None:
    words = ["rye", "--no-dark-crust", "--sodium", "2", "--hours", "3"]
    assert parse_apart(Baking, words, program="bake") == (Baking("rye", 3, False, 2.0), [])
    with pytest.raises(RecipeError, match="--dark-crst is no option; did you mean --dark-crust"):
        parse_apart(Baking, ["rye", "--dark-crst"], program="bake")
    with pytest.raises(RecipeError, match="Unrecognized options: --seed"):
        parse_apart(Baking, ["rye", "--", "--seed"], program="bake")
