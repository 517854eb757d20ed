from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

Say = Callable[..., Any]


def measure(folder: Path, *lines: tuple[str, int, float]) -> Path:
    """A run that has measured so much; one more line each time it is called."""
    folder.mkdir(exist_ok=True)
    with (folder / "metrics.jsonl").open("a") as file:
        for kind, step, loss in lines:
            told = {"loss": loss, "seconds": 60.0 * step} if kind == "validation" else {"nll": loss, "loss": loss + 1}
            file.write(json.dumps({"kind": kind, "step": step, **told}) + "\n")
    return folder


@pytest.fixture
def halfway(tmp_path: Path) -> Path:
    learned = [("training", 50 * n, 4.0 / n) for n in range(1, 9)]
    measured = [("validation", 100 * n, 3.0 / n + 0.3 * n) for n in range(1, 5)]
    return measure(tmp_path / "halfway", *learned, *measured)


def test_the_terminal_gets_a_plot(say: Say, halfway: Path) -> None:
    said = say("curve", halfway)
    assert said.code == 0
    assert said.out.startswith("nats per label\n")
    assert "\n· training\n● validation\n" in said.out
    assert said.lines[-1] == (
        f"{halfway}: lowest validation loss 1.9000 at update 300, 1.9500 at update 400, training 0.5000 at update 400, "
        "not finished"
    )


def test_a_trained_run_has_a_curve(say: Say, trained: Path) -> None:
    said = say("curve", trained)
    assert said.code == 0
    assert said.lines[-1].startswith(f"{trained}: lowest validation loss ")
    assert said.lines[-1].endswith(", finished")


def test_several_runs_have_their_names(say: Say, halfway: Path, tmp_path: Path) -> None:
    other = measure(tmp_path / "other", ("validation", 100, 2.5))
    said = say("curve", halfway, other)
    assert all(f" {name}, {part}" in said.out for name in (halfway, other) for part in ("training", "validation"))


@pytest.mark.parametrize("option", ["-o", "--output"])
def test_a_page_and_a_picture(say: Say, halfway: Path, tmp_path: Path, option: str) -> None:
    for name in ("curve.html", "curve.svg"):
        said = say("curve", halfway, option, tmp_path / name)
        assert (said.code, said.out, said.err) == (0, "", f"written: {tmp_path / name}\n")
    picture = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    drawn = ElementTree.fromstring(picture)
    tips = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert "training: 50, 4" in tips
    assert "validation: 300, 1.9" in tips
    page = (tmp_path / "curve.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2, "by updates and by time"
    assert [f"<td>{cell}</td>" in page for cell in ("400", "1.9000", "300", "1.9500", "0.5000", "not yet")] == [
        True
    ] * 6


def test_following_draws_again_until_the_end(say: Say, halfway: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter(
        [
            lambda: None,
            lambda: measure(halfway, ("validation", 500, 1.0)),
            lambda: measure(halfway, ("final", 500, 1.0)),
        ]
    )
    monkeypatch.setattr("heedful.cli.train.time.sleep", lambda _: next(steps)())
    said = say("curve", halfway, "--follow")
    assert said.code == 0
    about = [line.partition(": ")[2] for line in said.lines if line.startswith(f"{halfway}: ")]
    assert len(about) == 3, "no new plot where nothing is new"
    assert about[1].startswith("lowest validation loss 1.0000 at update 500")
    assert [text.endswith(", finished") for text in about] == [False, False, True]


def test_following_waits_for_a_run_that_has_just_begun_and_is_ended_by_hand(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new"
    folder.mkdir()

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("heedful.cli.train.time.sleep", interrupt)
    said = say("curve", folder, "--follow")
    assert (said.code, said.out.strip()) == (0, f"{folder}: no measurements yet")


def test_a_terminal_is_drawn_in_place(say: Say, halfway: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure(halfway, ("final", 400, 1.0))
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    said = say("curve", halfway, "--follow")
    assert said.code == 0
    assert "validation" in said.out


def test_what_is_wrong_is_told(say: Say, halfway: Path, tmp_path: Path) -> None:
    nowhere, empty = tmp_path / "nowhere", tmp_path / "empty"
    empty.mkdir()
    cases = {
        (): "heedful curve: needs RUNS; write heedful curve RUNS",
        (nowhere,): f"{nowhere}: no such run folder; give the `output` of a recipe that is trained",
        (empty,): f"{empty}: has no measurements yet; the first ones come after 50 updates",
        (halfway, "-o", "curve.png"): "--output: curve.png; the name must end in .html or .svg",
        (
            halfway,
            "-o",
            nowhere / "c.svg",
        ): f"{nowhere / 'c.svg'}: cannot be written (No such file or directory); choose",
        (halfway, "-o", "c.svg", "--follow"): "--follow: draws in the terminal; leave --output out, or leave",
    }
    for words, complaint in cases.items():
        assert say("curve", *words).complaint.startswith(complaint)
