"""`heedful ask`, and the other commands for a run that answers questions about stories."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heedful

Say = Callable[..., Any]
FACTS = ["Ada went to the hall.", "Ben took the key.", "Ada ran back to the attic."]


@pytest.fixture
def story(here: Path) -> Path:
    path = here / "story.txt"
    path.write_text("".join(f"{number} {fact}\n" for number, fact in enumerate(FACTS, 1)), encoding="utf-8")
    return path


@pytest.mark.slow
def test_answers_and_the_facts_that_were_looked_at(say: Say, told: Path, story: Path) -> None:
    found = say("ask", told, story, "Where is Ada?", "Who has the key?")
    assert found.code == 0, found.err
    expected = heedful.load(told).ask(FACTS, "Where is Ada?")
    assert found.lines[0] == f"{expected.answer}\t{expected.probability:.3f}"
    for hop, (line, place) in enumerate(zip(found.lines[1:3], expected.looked, strict=True), 1):
        assert line == f"  hop {hop}  {expected.weights[hop - 1][place]:.2f}  {place + 1}  {FACTS[place]}"
    assert len(found.lines) == 6
    assert say("ask", told, "-", "Where is Ada?", stdin="\n".join(FACTS)).lines == found.lines[:3]


def test_json_and_a_page(say: Say, told: Path, story: Path, here: Path) -> None:
    found = say("ask", told, story, "Where is Ada?", "--format", "jsonl", "--page", "p.html")
    assert found.code == 0, found.err
    content = json.loads(found.out)
    assert content["question"] == "Where is Ada?"
    assert [len(weights) for weights in content["weights"]] == [3, 3]
    assert "Ada ran back to the attic." in (here / "p.html").read_text(encoding="utf-8")
    same = say("predict", told, "--format", "jsonl", stdin=json.dumps({"facts": FACTS, "question": "Where is Ada?"}))
    assert json.loads(same.out) == content


@pytest.mark.parametrize(
    ("text", "words", "complaint"),
    [
        ("1 A.\n", [], 'no question; give one after the story, as in "Where is the apple?"'),
        ("1 A.\n", ["A?", "B?", "--page", "p.html"], "--page: shows one question; ask the others without it"),
        (" \n", ["A?"], "story.txt: has no sentence; write one on each line"),
        ("1 A?\tb\t1\n", ["A?"], "story.txt: contains a tab, which bAbI writes before answers"),
        ("1 A.\n", ["a " * 70], "more than 64 words (data.max_length); cut the sentence"),
    ],
)
def test_wrong_words(say: Say, told: Path, story: Path, text: str, words: list[str], complaint: str) -> None:  # noqa: PLR0917
    story.write_text(text)
    assert complaint in say("ask", told, story, *words).complaint


def test_words_that_training_never_saw_are_named(say: Say, told: Path, story: Path) -> None:
    found = say("ask", told, story, "Where is the zebra?", "Where is the gnu, zebra?")
    assert found.code == 0
    assert "these words did not occur in training, so they are ignored: zebra, gnu\n" in found.err
    assert "never saw" not in say("ask", told, story, "Where is Ada?").err


def test_a_story_that_is_not_there(say: Say, told: Path) -> None:
    assert "there is no such file" in say("ask", told, "none.txt", "A?").complaint


def test_it_is_evaluated_and_compared_by_tasks(say: Say, told: Path, tmp_path: Path) -> None:
    found = say("evaluate", told)
    assert found.code == 0, found.err
    assert [line.split()[0] for line in found.lines[3:6]] == ["error", "failed", "accuracy"]
    assert sum(line.startswith(("where is", "who has")) for line in found.lines) == 3
    content = json.loads(say("evaluate", told, "--format", "json").out)
    tasks = content["tasks"].values()
    assert content["metrics"]["error"] == pytest.approx(sum(each["error"] for each in tasks) / 3)
    shutil.copytree(told, tmp_path / "copy")
    both = say("compare", told, tmp_path / "copy", "--samples", 5)
    assert both.code == 0, both.err
    assert "error" in both.out


def test_it_is_inspected(say: Say, told: Path, here: Path) -> None:
    found = say("inspect", told, "--text", "Where is Ada?", "--pair", " ".join(FACTS), "-o", "p.html")
    assert found.code == 0, found.err
    assert (here / "p.html").stat().st_size > 1000
    assert "give it, sentence by sentence" in say("inspect", told, "--text", "Where is Ada?").complaint


def test_the_quick_start_in_a_few_steps(say: Say, here: Path) -> None:
    found = say("quickstart", "stories", "--size", 60, "--steps", 4)
    assert found.code == 0, found.err
    folder = here / "runs/quickstart-stories"
    stories = {}
    for part, count in (("train", 60), ("validation", 500), ("test", 500)):
        lines = (folder / f"{part}.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(lines) == count
        stories[part] = {tuple(json.loads(line)["facts"]) for line in lines}
    assert not stories["train"] & stories["test"]
    assert not stories["train"] & stories["validation"]
    assert not stories["validation"] & stories["test"]
    assert (folder / "looked.html").stat().st_size > 1000
    assert say("ask", folder / "run", folder / "story.txt", "Where is Ada?").code == 0
    assert "both must be at least 1" in say("quickstart", "stories", "--size", 0).complaint
