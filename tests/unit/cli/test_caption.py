"""`heedful caption`: files in, captions out; and what else the command line says of captioners."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import heedful
from heedful.recipes.load import load_recipe
from heedful.tasks.captioning.demonstration import CaptioningDemonstration

Say = Callable[..., object]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demonstration's files, and a run that learned for a second."""
    folder = tmp_path_factory.mktemp("caption")
    recipe = CaptioningDemonstration(output=folder / "d", steps=4, size=40).write_recipe()
    options = ["--training.evaluate_every", "4", "--training.batch_tokens", "200", "--model.d_model", "16"]
    options += ["--model.pictures.widths", "[4, 8, 16]", "--training.precision", "fp32"]
    heedful.train(load_recipe(recipe, options), device="cpu")
    return folder / "d"


def pictures(made: Path, count: int = 2) -> list[Path]:
    return sorted((made / "pictures").glob("test*.png"))[:count]


def test_files_and_their_captions_stand_in_lines(made: Path, say: Say) -> None:
    told = say("caption", made / "run", *pictures(made))
    assert told.code == 0
    assert [line.split("\t")[0] for line in told.lines] == list(map(str, pictures(made)))
    assert all(len(line.split("\t")) == 2 for line in told.lines)
    listed = say("caption", made / "run", stdin="".join(f"{path}\n" for path in pictures(made)))
    assert listed.out == told.out


def test_json_has_candidates_with_scores(made: Path, say: Say) -> None:
    told = say("caption", made / "run", pictures(made)[0], "--format", "jsonl", "--beam", "3", "--n-best", "2")
    record = json.loads(told.out)
    assert record["picture"] == str(pictures(made)[0])
    assert len(record["candidates"]) == 2
    assert record["caption"] == record["candidates"][0]["text"]
    assert record["candidates"][0]["score"] >= record["candidates"][1]["score"]
    lines = say("caption", made / "run", pictures(made)[0], "--beam", "3", "--n-best", "2").lines
    assert [line.split("\t")[1] for line in lines] == [each["text"] for each in record["candidates"]]
    sampled = [say("caption", made / "run", pictures(made)[0], "--search", "sampling", "--seed", n).out for n in (5, 5)]
    assert sampled[0] == sampled[1]


def test_groups_go_for_captions_and_coverage_does_not(made: Path, say: Say) -> None:
    words = ("caption", made / "run", pictures(made)[0])
    own = json.loads(say(*words, "--format", "jsonl", "--beam", "4", "--groups", "2", "--n-best", "4").out)
    texts = [each["text"] for each in own["candidates"]]
    assert 1 < len(texts) == len(set(texts))
    narrow = say(*words, "--format", "jsonl", "--beam", "2").out
    assert own["candidates"][0]["score"] >= json.loads(narrow)["candidates"][0]["score"] - 1e-4
    refused = "coverage: needs attention to a source text, which only translation"
    assert say(*words, "--coverage", "0.2").complaint.startswith(refused)
    assert say(*words, "--groups", "3", "--beam", "4").complaint.startswith("--groups: 3 cannot share a beam of 4")


def test_a_page_shows_pictures_and_words(made: Path, say: Say, tmp_path: Path) -> None:
    told = say("caption", made / "run", *pictures(made), "--page", tmp_path / "page.html")
    assert told.code == 0
    page = (tmp_path / "page.html").read_text()
    for line in told.lines:
        name, caption = line.split("\t")
        assert name in page
        assert caption in page
    assert "img-src data:" in page
    assert page.count("data:image/png;base64,") >= 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.png"], "none.png: there is no such picture; check the path"),
        ([""], "command line:1: does not name a picture; remove the line"),
        (["a.png", "--input", "list.txt"], "--shown and --input: give one of them"),
        (["a.png", "--n-best", "0"], "--n-best: 0; must be at least 1"),
        (["a.png"] * 101 + ["--page", "p.html"], "--page: 101 files are too many for one"),
        (["a.png", "--beam", "3", "--search", "greedy"], "--beam: does not fit --search greedy"),
    ],
)
def test_what_is_wrong_is_one_sentence(made: Path, say: Say, words: list[str], said: str) -> None:
    assert said in say("caption", made / "run", *words).complaint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.png"], "none.png: there is no such picture; check the path"),
        (["--input", "none.txt"], "none.txt: there is no such file; check the path"),
        (["{picture}", "--search", "greedy", "--n-best", "2"], "--n-best 2: greedy search finds one caption; add"),
        (["{picture}", "--beam", "3", "--search", "greedy"], "--beam: does not fit --search greedy"),
        (["{picture}", "--coverage", "0.2"], "coverage: needs attention to a source text"),
        (["{picture}", "--page", "no/p.html"], "no/p.html: cannot be written (No such file or directory)"),
    ],
)
@pytest.mark.usefixtures("unloaded")
def test_mistakes_are_told_before_a_model_is_loaded(made: Path, say: Say, words: list[str], said: str) -> None:
    (picture,) = pictures(made, 1)
    assert said in say("caption", made / "run", *(word.format(picture=picture) for word in words)).complaint


def test_a_damaged_picture_is_named(made: Path, say: Say, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(pictures(made)[0].read_bytes()[:-40])
    assert "a.png: is a damaged picture" in say("caption", made / "run", tmp_path / "a.png").complaint


def test_a_captioner_is_evaluated_compared_and_inspected(made: Path, say: Say, tmp_path: Path) -> None:
    told = say("evaluate", made / "run")
    assert told.code == 0
    for name in ("BLEU-1", "BLEU-4", "CIDEr-D", "exact match", "pointing", "nearest picture"):
        assert name in told.out
    compared = say("compare", made / "run", "--samples", "10", "--json", tmp_path / "c.json")
    assert compared.code == 0, compared.err
    assert "CIDEr-D" in compared.out
    assert json.loads((tmp_path / "c.json").read_text())["runs"][0]["metrics"]["exact match"]["value"] >= 0
    beside = say("evaluate", made / "run", "--against", made / "run", "--samples", "10")
    assert beside.code == 0, beside.err
    said = say("predict", made / "run", "--text", pictures(made)[0])
    assert said.out == say("caption", made / "run", pictures(made)[0]).out
    found = say("inspect", made / "run", "--text", pictures(made)[0], "-o", tmp_path / "i.html")
    assert found.code == 0
    assert (tmp_path / "i.html").stat().st_size > 10_000


def test_the_quick_start_shows_what_was_learned(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    face = heedful.load(made / "run", device="cpu")
    CaptioningDemonstration(output=made, steps=4, size=40).show_results(face, made / "run")
    said = capsys.readouterr().out
    assert "exact match" in said
    assert "looked at what it named" in said
    assert (made / "captions.html").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--objects", "0"], "--objects: 0; give numbers from 1 to 9"),
        (["--size", "0"], "--size: 0; must be at least 1"),
    ],
)
def test_what_cannot_be_drawn_is_told(say: Say, tmp_path: Path, words: list[str], said: str) -> None:
    assert said in say("quickstart", "captioning", "--output", tmp_path / "q", *words).complaint
