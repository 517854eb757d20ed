"""`--references` and `data.test.references`: several translations to compare with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

Say = Callable[..., Any]
QUICK = ("--samples", "20")


@pytest.fixture
def text(here: Path) -> Path:
    """Five sentences with two references; the fourth has one only."""
    lines = {
        "s": ["a", "b", "c", "d", "e"],
        "h": ["ein Hund rennt schnell weg", "zwei", "drei Katzen", "vier", "fünf"],
        "r1": ["der Hund rennt sehr schnell weg", "zwei", "drei graue Katzen sitzen", "vier", "sechs"],
        "r2": ["ein Hund läuft schnell weg", "beide", "drei Katzen", "", "fünf"],
    }
    for name, content in lines.items():
        (here / name).write_text("".join(f"{line}\n" for line in content))
    return here


def read(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text().split("\n")[:-1]


def test_scores_are_sacrebleus_with_both_references(say: Say, text: Path) -> None:
    said = say("evaluate", "h", "--source", "s", "--target", "r1", "--references", "r2", *QUICK, "--format", "json")
    assert said.code == 0, said.err
    scores = {score["name"]: score for score in json.loads(said.out)["scores"]}
    streams = [read(text, "r1"), [line or None for line in read(text, "r2")]]
    for name, metric in (
        ("BLEU", sacrebleu.metrics.BLEU()),
        ("chrF2", sacrebleu.metrics.CHRF()),
        ("TER", sacrebleu.metrics.TER(case_sensitive=True)),
    ):
        assert scores[name]["value"] == pytest.approx(metric.corpus_score(read(text, "h"), streams).score)
        assert scores[name]["signature"] == str(metric.get_signature())
        assert scores[name]["signature"].startswith("nrefs:var|")
    assert scores["exact match"]["value"] == 80


def test_a_recipe_names_further_references_of_its_test_text(say: Say, small: Path, here: Path) -> None:
    for name, content in (("t.en", "1 2\n3\n"), ("t.de", "zwei eins\ndrei\n"), ("u.de", "eins zwei\n\n")):
        (here / name).write_text(content)
    files = ("--data.test.source", "t.en", "--data.test.target", "t.de", "--data.test.references", '["u.de"]')
    assert say("train", small, *files, "--training.steps", "1", "--device", "cpu").code == 0
    run = small.parent / "run"
    said = say("evaluate", run, *QUICK)
    assert "nrefs:var|case:mixed" in said.out, said.err
    assert "nrefs:var|case:mixed" in json.dumps(
        json.loads(say("evaluate", run, *QUICK, "--format", "json").out)["scores"]
    )
    (here / "u.de").write_text("eins zwei\n")
    assert f"{here / 'u.de'}:2: there are fewer lines than pairs in " in say("evaluate", run, *QUICK).err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--references r2", "--references: need --source and --target, or --data; for its own texts"),
        ("--source s --target r1 --references none", "none: there is no such file"),
        ("--source s --target r1 --references r2 long", "long:6: there are more lines than pairs in s and r1"),
        ("--source s --target r1 --references short", "short:5: there are fewer lines than pairs in s and r1"),
    ],
)
def test_what_does_not_fit_is_named(say: Say, text: Path, words: str, message: str) -> None:
    (text / "long").write_text("x\n" * 6)
    (text / "short").write_text("x\n" * 4)
    said = say("evaluate", "h", *words.split())
    assert said.code == 2
    assert message in said.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ('--data.train.references ["a"]', "data.train.references have no effect there: they belong to the texts for"),
        (
            '--data.validation.references ["a"] --data.validation.source_language en '
            "--data.validation.target_language de --data.validation.both_ways true",
            "data.validation.references translate into one language; leave both_ways out",
        ),
    ],
)
def test_a_recipe_has_them_for_evaluation_only(say: Say, small: Path, words: str, message: str) -> None:
    said = say("train", small, *words.split())
    assert said.code == 2
    assert message in said.err


def test_the_language_of_a_recipe_decides_how_words_are_split(say: Say, small: Path, here: Path) -> None:
    words = ("--training.steps", "1", "--device", "cpu")
    for part in ("train", "validation"):
        words += (f"--data.{part}.source_language", "en", f"--data.{part}.target_language", "th")
    assert say("train", small, *words).code == 0
    run = small.parent / "run"
    for options in ((), ("--source", small.parent / "train.en", "--target", small.parent / "train.de")):
        said = say("evaluate", run, *QUICK, *options)
        assert "|tok:char|" in said.out, said.err
        assert "BLEU splits words by char (--tokenize), which suits the language of the references" in said.out
    assert "|tok:13a|" in say("evaluate", run, *QUICK, "--tokenize", "13a").out
