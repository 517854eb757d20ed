"""`heedful transcribe`, and what other commands do with recognisers."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import audio_samples
import pytest

import heedful

Say = Callable[..., Any]


@pytest.fixture(scope="module")
def recogniser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that knows three tones, beside its recordings."""
    folder = tmp_path_factory.mktemp("tones")
    audio_samples.write_recordings(folder, "train", 100, seed=1)
    audio_samples.write_recordings(folder, "validation", 6, seed=2)
    (folder / "recipe.toml").write_text(audio_samples.RECIPE, encoding="utf-8")
    words = ["--output", str(folder / "run"), "--model.ctc_weight", "1", "--training.steps", "80"]
    return heedful.train(heedful.load_recipe(folder / "recipe.toml", words), device="cpu").folder


def rows(recogniser: Path) -> list[list[str]]:
    lines = (recogniser.parent / "validation.tsv").read_text(encoding="utf-8").splitlines()
    return [[str(recogniser.parent / name), text] for name, text in (line.split("\t") for line in lines)]


def test_sounds_become_lines_in_their_order(say: Say, recogniser: Path, tmp_path: Path) -> None:
    known = rows(recogniser)
    said = say("transcribe", recogniser, *(name for name, _ in known))
    assert (said.code, said.lines) == (0, [text for _, text in known])
    names = "".join(f"{name}\n" for name, _ in known)
    (tmp_path / "names.txt").write_text(names)
    assert say("transcribe", recogniser, "--input", tmp_path / "names.txt").out == said.out
    assert say("transcribe", recogniser, stdin=names).out == said.out
    assert say("predict", recogniser, "--text", *(name for name, _ in known)).out == said.out
    assert say("transcribe", recogniser, "--output", tmp_path / "o.txt", known[0][0]).code == 0
    assert (tmp_path / "o.txt").read_text() == f"{known[0][1]}\n"


def test_several_texts_and_json(say: Say, recogniser: Path) -> None:
    (name, text), *_ = rows(recogniser)
    lines = [line.split("\t") for line in say("transcribe", recogniser, name, "--n-best", 2).lines]
    assert [line[0] for line in lines] == ["1", "1"]
    assert lines[0][1] == text
    assert float(lines[0][2]) > float(lines[1][2])
    found = json.loads(say("transcribe", recogniser, name, "--format", "jsonl", "--beam", 3).out)
    assert (found["sound"], found["text"], len(found["candidates"])) == (name, text, 1)
    assert found["candidates"][0]["tokens"]


def test_what_a_beam_of_translations_knows_is_refused_where_it_means_nothing(say: Say, recogniser: Path) -> None:
    (name, _), *_ = rows(recogniser)
    refused = say("transcribe", recogniser, name, "--groups", 2, "--beam", 4).complaint
    assert refused.startswith(
        "generation.groups: depends on the tokens that were written before, and a model with model.ctc_weight = 1"
    )
    assert say("transcribe", recogniser, name, "--coverage", 0.2).complaint.startswith(
        "coverage: needs attention to a source text"
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["none.wav"], "none.wav: there is no such file; check the path"),
        (["--input", "none.txt"], "none.txt: there is no such file; check the path"),
        (["{sound}", "--search", "greedy", "--n-best", "2"], "--n-best 2: greedy search finds one text; add"),
        (["{sound}", "--beam", "3", "--search", "greedy"], "--beam: does not fit --search greedy"),
        (["{sound}", "--coverage", "0.2"], "coverage: needs attention to a source text"),
        (["{sound}", "--search", "sampling"], "sampling: draws token after token, and a model with"),
        (
            ["{sound}", "--groups", "2", "--beam", "4"],
            "generation.groups: depends on the tokens that were written before",
        ),
        (["{sound}", "--page", "no/p.html"], "no/p.html: cannot be written (No such file or directory)"),
    ],
)
@pytest.mark.usefixtures("unloaded")
def test_mistakes_are_told_before_a_model_is_loaded(
    say: Say, recogniser: Path, words: list[str], complaint: str
) -> None:
    (sound, _), *_ = rows(recogniser)
    found = say("transcribe", recogniser, *(word.format(sound=sound) for word in words)).complaint
    assert found.startswith(complaint)


def test_a_page_shows_one_sound(say: Say, recogniser: Path, tmp_path: Path) -> None:
    (name, text), (other, _), *_ = rows(recogniser)
    page = tmp_path / "p.html"
    said = say("transcribe", recogniser, name, "--page", page)
    assert (said.out, said.err) == (f"{text}\n", f"written: {page}\n")
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert say("transcribe", recogniser, name, other, "--page", page).complaint == (
        "--page: shows one sound, but 2 are given; give one"
    )
    assert say("inspect", recogniser, "--text", name, "--output", page).code == 0


def test_recognisers_are_measured_and_compared(say: Say, recogniser: Path, tmp_path: Path) -> None:
    said = say("evaluate", recogniser, "--samples", 5, "--format", "json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["metrics"]["exact"]["value"] == 100.0
    said = say("evaluate", recogniser, "--samples", 5, "--data", recogniser.parent / "train.tsv", "--beam", 2)
    assert re.match(r".*train\.tsv, 100 recordings of \d+ s together, heard in .*\n\nmetric", said.out)
    assert "\nword errors          0.00  0.00 to 0.00\n" in said.out
    (tmp_path / "t.tsv").write_text("gone.wav\tlow\n")
    assert say("evaluate", recogniser, "--data", tmp_path / "t.tsv").complaint.endswith(
        "gone.wav: there is no such file; correct the line or add the file"
    )
    other = shutil.copytree(recogniser, tmp_path / "other")
    said = say("compare", recogniser, other, "--samples", 5, "--page", tmp_path / "c.html")
    assert said.code == 0, said.err
    assert "2 runs of speech on 6 recordings" in said.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("{run} nowhere.wav", "nowhere.wav: there is no such file; check the path"),
        ("{run} {table}", "{table}: is not a sound that can be read"),
        ("{run} {sound} --input {table}", "--sounds and --input: give one of them"),
        ("{run} {sound} --n-best 0", "--n-best: 0; must be at least 1"),
        ("{run} {sound} --search sampling", "sampling: draws token after token"),
        ("{run} {sound} --temperature 2 --search beam", "--temperature: does not fit --search beam"),
    ],
)
def test_wrong_words(say: Say, recogniser: Path, words: str, complaint: str) -> None:
    places = {"run": recogniser, "table": recogniser.parent / "train.tsv", "sound": rows(recogniser)[0][0]}
    assert say("transcribe", *words.format(**places).split()).complaint.startswith(complaint.format(**places))


def test_the_quick_start_in_a_few_steps(say: Say, here: Path) -> None:
    said = say("quickstart", "speech", "--output", here / "q", "--size", 30, "--tests", 6, "--steps", 2)
    assert said.code == 0, said.err
    assert "6 strings of four digits in voices that were never in the training part:" in said.out
    assert said.out.count("  -> ") == 5
    assert (here / "q/heard.html").stat().st_size > 1000
    parts = {part: (here / f"q/{part}.tsv").read_text().splitlines() for part in ("train", "validation", "test")}
    texts = {part: {line.split("\t")[1] for line in lines} for part, lines in parts.items()}
    assert not texts["train"] & (texts["validation"] | texts["test"])
    assert not texts["validation"] & texts["test"]
