"""`heedful quickstart glimpses`, and looking at pictures with what it trained."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedful.__main__ import main
from heedful.data.readers import read_lines

Say = Callable[..., Any]
SMALL = ("--data.train.stop", "150")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a quick start of a few steps, and what it printed."""
    import io
    from contextlib import redirect_stdout

    from heedful.tasks.glimpses import demonstration

    folder, before = tmp_path_factory.mktemp("shown") / 'a"b&<c>', demonstration._HELD_OUT
    demonstration._HELD_OUT = 40  # type: ignore[misc]  # as a small one
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            assert main(["quickstart", "glimpses", "--output", str(folder), "--steps", "6", "--size", "200"]) == 0
    finally:
        demonstration._HELD_OUT = before  # type: ignore[misc]
    return folder, printed.getvalue()


def test_the_quick_start_shows_what_it_made(shown: tuple[Path, str]) -> None:
    folder, printed = shown
    assert re.search(r"right after each glimpse:\n  (\d+\.\d%  ){4}\d+\.\d%\n", printed), printed
    assert f"where it looked: {folder / 'glimpses.html'}" in printed
    assert "<html" in (folder / "glimpses.html").read_text(encoding="utf-8")
    assert len(list((folder / "mazes").glob("*.png"))) == 6
    sizes = {name: (folder / f"digits/{name}.idx").stat().st_size - 16 for name in ("train", "validation", "test")}
    assert {name: size // 256 for name, size in sizes.items()} == {"train": 200, "validation": 40, "test": 40}
    contents = [(folder / f"digits/{name}.idx").read_bytes()[16:] for name in sizes]
    pictures = [content[start : start + 256] for content in contents for start in range(0, len(content), 256)]
    assert len(set(pictures)) == 280, "no digit is in two parts"


def test_pictures_as_words_as_lines_and_as_json(say: Say, shown: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = shown
    run, paths = folder / "run", sorted((folder / "mazes").glob("*.png"))
    first = say("look", run, *paths)
    assert first.code == 0, first.err
    assert [line.split("\t")[0] for line in first.lines] == list(map(str, paths))
    assert all(re.fullmatch(r"[^\t]+\t\d\t[01]\.\d{4}", line) for line in first.lines)
    lines = "".join(f"{path}\n" for path in paths)
    assert say("look", run, stdin=lines).out == say("predict", run, stdin=lines).out == first.out
    told = say("look", run, *reversed(paths), "--format", "jsonl", "--output", tmp_path / "o.jsonl")
    assert told.code == 0, told.err
    records = [json.loads(line) for line in read_lines(tmp_path / "o.jsonl")]
    assert [record["class"] for record in reversed(records)] == [line.split("\t")[1] for line in first.lines]
    assert all(len(record["glimpses"]) == 5 for record in records)
    assert all(0 <= glimpse["row"] <= 1 for record in records for glimpse in record["glimpses"])


def test_a_page_and_other_views(say: Say, shown: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = shown
    page = say("look", folder / "run", folder / "mazes/0.png", "--page", tmp_path / "p.html")
    assert page.code == 0, page.err
    assert f"written: {tmp_path / 'p.html'}" in page.err
    words = ("--text", folder / "mazes/0.png", "--output", tmp_path / "i.html", "--save", tmp_path / "r.safetensors")
    inspected = say("inspect", folder / "run", *words)
    assert inspected.code == 0, inspected.err
    assert (tmp_path / "i.html").read_bytes() == (tmp_path / "p.html").read_bytes()
    again = say("inspect", "--record", tmp_path / "r.safetensors", "--output", tmp_path / "s.html")
    assert again.code == 0, again.err


def test_measuring_and_comparing_beside_controls(say: Say, shown: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = shown
    runs = [folder / "run"]
    kinds = ("--model.kind convolutional --model.width 5", "--model.kind feed_forward", "--model.policy random")
    for number, words in enumerate(kinds):
        runs.append(tmp_path / f"control{number}")
        done = say("train", folder / "recipe.toml", "--output", runs[-1], *words.split(), *SMALL)
        assert done.code == 0, done.err
    measured = [say("evaluate", run, "--samples", 2, "--format", "json") for run in runs]
    metrics = [json.loads(each.out)["metrics"] for each in measured]
    assert list(metrics[0]) == ["accuracy", *(f"after {number}" for number in range(1, 5))]
    assert list(metrics[1]) == list(metrics[2]) == ["accuracy"]
    compared = say("compare", *runs, "--samples", 2)
    assert compared.code == 0, compared.err
    assert "always" in compared.out and compared.out.count("control") >= 3


@pytest.mark.parametrize("words", ["--model.scales 2 --model.cell lstm", "--model.kind convolutional --model.width 4"])
def test_half_precision(say: Say, shown: tuple[Path, str], tmp_path: Path, words: str) -> None:
    folder, _ = shown
    more = ("--training.precision", "bf16", "--training.steps", 2, *SMALL)
    done = say("train", folder / "recipe.toml", "--output", tmp_path / "half", *words.split(), *more)
    assert done.code == 0, done.err
    assert say("look", tmp_path / "half", folder / "mazes/0.png").code == 0


def test_training_goes_on_as_if_it_had_not_been_stopped(say: Say, shown: tuple[Path, str], tmp_path: Path) -> None:
    """Byte for byte, with scenes, places and moved pictures that depend on the epoch."""
    folder, _ = shown
    words = ("--training.warp.degrees", 5, "--training.copies", 2, *SMALL, "--training.schedule.kind", "constant")
    for name, sittings in (("one", (5,)), ("two", (2, 5))):
        for steps in sittings:
            done = say("train", folder / "recipe.toml", "--output", tmp_path / name, "--training.steps", steps, *words)
            assert done.code == 0, done.err
    last = "checkpoints/step-00000005.safetensors"
    one, two = ((tmp_path / name / last).read_bytes() for name in ("one", "two"))
    assert one == two


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("look RUN a.png", "a.png: there is no such picture; check the path"),
        ("look RUN 0.png 1.png --page p.html", "--page: shows one picture, but 2 are given; give one"),
        ("look RUN --page p.html", "--page: shows one picture, but 0 are given; give one"),
        ("look RUN 0.png --input x", "--pictures and --input: give one of them"),
        ("look RUN RECIPE", "RECIPE: is not a picture in one of the formats"),
        ("inspect RUN --text 0.png --layers 1", "layers: 1; this model has no attention"),
        ("inspect RUN --text 0.png --pair 1.png", "--pair: is an option of other models"),
        ("translate RUN --text a", "is a glimpse predictor and not a model that translates"),
        (
            "describe RECIPE",
            "task: the number of outputs for glimpses is the number of classes in the data; train first",
        ),
        ("train RECIPE --training.copies 0", "training.copies = 0 must be at least 1"),
        (
            "train RECIPE --model.kind feed_forward --training.copies 2",
            'training.copies = 2: has no effect for model.kind = "feed_forward", which reads each copy alike; leave '
            "it out",
        ),
        ("train RECIPE --data.scene.side 15", "data.scene.side = 15 must hold a picture of 16 x 16"),
        ("train RECIPE --data.scene.piece 17", "data.scene.piece = 17 must fit into a picture of 16 x 16"),
        ("train RECIPE --data.train.start 5 --data.train.stop 5", "data.train.stop = 5 must be above start = 5"),
        ("train RECIPE --data.height 17", "data.train: .* pictures of 1 x 16 x 16 .* 1 x 17 x 16"),
        ("train RECIPE --model.kind convolutional --model.width 33", "model.width = 33: a filter must fit into"),
        ("quickstart glimpses --size 0", "--size: 0; must be at least 1"),
    ],
)
def test_wrong_words(say: Say, shown: tuple[Path, str], here: Path, words: str, complaint: str) -> None:
    folder, _ = shown
    shutil.copytree(folder / "digits", here / "digits")
    for number in (0, 1):
        shutil.copy(folder / f"mazes/{number}.png", here)
    recipe = (folder / "recipe.toml").read_text(encoding="utf-8")
    (here / "RECIPE").write_text(re.sub(r"output = .*", 'output = "new"', recipe), encoding="utf-8")
    said = say(*(folder / "run" if word == "RUN" else word for word in words.split()))
    assert re.search(complaint, said.complaint), said.complaint
