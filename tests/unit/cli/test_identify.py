"""`heedful identify`."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedful import load_recipe, train

FILE = "languages.safetensors"
Say = Callable[..., Any]
WORDS = {"en": ["the", "dog", "runs", "with", "two"], "de": ["der", "Hund", "läuft", "mit", "zwei"]}
TRAINING = """
[tokenizer]
kind = "words"
[model]
d_model = 4
heads = 1
layers = 1
[training]
steps = 1
"""


def texts(folder: Path) -> None:
    for language, words in WORDS.items():
        lines = (" ".join(words[(start + place) % 5] for place in range(4)) for start in range(5))
        (folder / f"t.{language}").write_text("".join(f"{line}\n" for line in lines))


def trained(folder: Path, text: str, *overrides: str) -> Path:
    table = f'source = "t.en"\ntarget = "t.de"\n{text}'
    (folder / "r.toml").write_text(f"[data.train]\n{table}\n[data.validation]\n{table}\n{TRAINING}")
    train(load_recipe(folder / "r.toml", ["--output", "run", *overrides]), say=lambda _: None, device="cpu")
    return folder / "run"


@pytest.fixture
def run(here: Path) -> Path:
    texts(here)
    return trained(here, 'source_language = "en"\ntarget_language = "de"')


def test_a_run_tells_the_languages_of_its_recipe_apart(say: Say, run: Path, here: Path) -> None:
    said = say("identify", run, "two dogs", "zwei Hunde läuft", "12")
    assert said.code == 0
    assert [line.split("\t")[0] for line in said.lines] == ["en", "de", ""]
    assert 0.9 < float(said.lines[0].split("\t")[1]) <= 1
    with gzip.open(here / "lines.gz", "wt") as file:
        file.write("der Hund\n\nthe dog\n")
    said = say("identify", run, "--input", "lines.gz", "--format", "jsonl", "-o", "told.jsonl")
    assert (said.code, said.out) == (0, "")
    found = [json.loads(line) for line in (here / "told.jsonl").read_text().splitlines()]
    assert [each["language"] for each in found] == ["de", None, "en"]
    assert found[1] == {"language": None, "probability": None}
    assert say("identify", run, stdin="mit\n").out.startswith("de\t")


def test_the_same_texts_give_the_same_file(run: Path, here: Path) -> None:
    languages = 'source_language = "en"\ntarget_language = "de"'
    trained(here, languages, "--output", "again", "--seed", "2")
    assert (here / "again" / FILE).read_bytes() == (run / FILE).read_bytes()
    trained(here, languages.replace("en", "it"), "--output", "other")
    assert (here / "other" / FILE).read_bytes() != (run / FILE).read_bytes()


def test_all_named_texts_count(say: Say, here: Path) -> None:
    texts(here)
    (here / "t.fr").write_text("le chien court\ndeux chiens\navec\ntoi\nvous\n")
    tables = "".join(
        f'[data.train.texts.{name}]\nsource = "t.en"\ntarget = "t.{name}"\nsource_language = "en"\n'
        f'target_language = "{name}"\nboth_ways = true\n'
        for name in ("de", "fr")
    )
    validation = '[data.validation]\nsource = "t.en"\ntarget = "t.fr"\nsource_language = "en"\ntarget_language = "fr"\n'
    (here / "r.toml").write_text(f"{tables}{validation}{TRAINING}")
    train(load_recipe(here / "r.toml", ["--output", "run"]), say=lambda _: None, device="cpu")
    said = say("identify", here / "run", "les chiens", "der Hund", "with the dog")
    assert [line.split("\t")[0] for line in said.lines] == ["fr", "de", "en"]


@pytest.mark.parametrize("anew", [True, False])
def test_a_run_that_goes_on_learns_its_own(
    say: Say, run: Path, here: Path, monkeypatch: pytest.MonkeyPatch, anew: bool
) -> None:
    if not anew:
        monkeypatch.setattr(sys.modules[__name__], "TRAINING", "[training]\nsteps = 1\n")
    (here / "t.de").write_text("perro\ncorre\nel\ncon\ndos\n")
    trained(here, 'source_language = "en"\ntarget_language = "es"', "--output", "more", "--init", f'"{run}"')
    assert say("identify", here / "more", "el perro").out.startswith("es\t")


def test_what_is_wrong_is_told(say: Say, run: Path, here: Path) -> None:
    silent = trained(here, "", "--output", "silent").parent / "silent"
    assert say("identify", silent, "a").complaint.startswith(
        f"{silent}: contains no language profiles; name the languages in"
    )
    assert "no such run folder" in say("identify", "nowhere", "a").complaint
    assert "none.txt: there is no such file" in say("identify", run, "--input", "none.txt").complaint
    assert "--text and --input" in say("identify", run, "a", "--input", "t.en").complaint
    (run / FILE).write_bytes(b"spoiled")
    assert "languages.safetensors: holds no languages" in say("identify", run, "a").complaint
