from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from heedful.data.phrasebook import build_phrasebook, list_languages

pytest.importorskip("babel")
pytest.importorskip("num2words")

Say = Callable[..., Any]


def test_the_whole_way_in_a_few_steps(say: Say, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not long enough to learn anything, and in a folder whose name must be escaped in TOML and SVG."""
    monkeypatch.setattr("heedful.tasks.demonstration.build_phrasebook", partial(build_phrasebook, held_out=30))
    folder = here / 'a"b&<c>-en-de'
    said = say("quickstart", "--output", here / 'a"b&<c>', "--size", 200, "--steps", 3)
    assert said.code == 0, said.err
    assert re.search(r"exact match \d+\.\d %   BLEU \d+\.\d", said.out)
    for part, count in (("train", 200), ("validation", 30), ("test", 30)):
        lines = (folder / f"text/{part}.tsv").read_text(encoding="utf-8").split("\n")[:-1]
        assert len(lines) == count
        assert all(line.count("\t") == 1 for line in lines)
    svg = (folder / "alignment.svg").read_text(encoding="utf-8")
    assert svg.startswith("<svg") and svg.rstrip().endswith("</svg>")
    assert "http" not in svg.replace("http://www.w3.org/", ""), "self-contained"
    assert f"what it looked at: {folder / 'alignment.svg'}" in said.out
    assert said.out.count("  -> ") == 6
    assert say("translate", folder / "run", "--text", "three").code == 0
    assert say("evaluate", folder / "run", "--samples", 2).code == 0


def test_matching_in_a_few_steps(say: Say, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question, what is found, and where to go next."""
    monkeypatch.setattr("heedful.tasks.demonstration.build_phrasebook", partial(build_phrasebook, held_out=30))
    said = say("quickstart", "matching", "--output", here / "a<b", "--size", 200, "--steps", 3)
    assert said.code == 0, said.err
    folder = here / "a<b-de-en"
    assert re.search(r"right one: \d+\.\d %   among the first five: \d+\.\d %   by chance: 3\.3 %", said.out)
    page = (folder / "found.html").read_text(encoding="utf-8")
    assert page.count("<table>") == 8
    assert page.count("<td>right</td>") <= 8
    passages = (folder / "text/passages.txt").read_text(encoding="utf-8").splitlines()
    test = [line.split("\t")[1] for line in (folder / "text/test.tsv").read_text(encoding="utf-8").splitlines()]
    assert passages == test
    commands = [line.strip() for line in said.out.splitlines() if line.strip().startswith("heedful ")]
    assert [shlex.split(command)[1] for command in commands] == ["evaluate", "index", "search"]
    assert say(*shlex.split(commands[0])[1:]).code == 0


def test_languages_are_listed(say: Say) -> None:
    said = say("quickstart", "--languages")
    assert (said.code, said.out.split()) == (0, list(list_languages()))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--source xx", "no phrasebook for the language 'xx': available are am, ar,"),
        ("--target german", "no phrasebook for the language 'german': did you mean de"),
        ("--target en", "--target: en is also --source; choose another"),
        ("--size 0", "a phrasebook of 0 and 500 held-out pairs: each must be at least 1"),
        ("--steps 0 --size 40", "{here}/runs/quickstart-en-de/recipe.toml: training.steps = 0 must be at least 1"),
        ("--output a/b --size 40", "a/b-en-de: cannot be written (Not a directory); choose another --output"),
        ("--speed 3", "heedful quickstart: --speed is not an option; did you mean --seed?"),
    ],
)
def test_wrong_words(say: Say, here: Path, words: str, complaint: str) -> None:
    (here / "a").write_text("a file")
    said = say("quickstart", *words.split())
    assert said.code == 2
    assert "Traceback" not in said.err
    told = said.err.splitlines()[-1].removeprefix("heedful: ")
    assert told.startswith(complaint.removeprefix("{here}/")), told
