"""`heedful split`: parts of the sizes that were asked for, of which no two share a text."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedful.data.detect.hash_sample import normalise_text

Say = Callable[..., Any]
PAIRS = [
    (f"the dog number {n % 400} is here and it is good", f"der Hund {n} ist hier und er ist gut") for n in range(600)
]


def save(path: Path, rows: list[tuple[str, str]]) -> None:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")


def read(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [(line.split("\t")[0], line.split("\t")[1]) for line in lines]


def test_no_text_is_in_two_parts_and_none_is_lost(here: Path, say: Say) -> None:
    save(here / "pairs.tsv", PAIRS)
    said = say("split", "pairs.tsv", "-o", "parts", "--validation", "50", "--test", "30")
    assert said.code == 0, said.err
    parts = {name: read(here / f"parts/{name}.tsv") for name in ("train", "validation", "test")}
    assert sorted(pair for part in parts.values() for pair in part) == sorted(PAIRS)
    assert (len(parts["validation"]), len(parts["test"])) == (50, 30)
    sources = {name: {normalise_text(source) for source, _ in part} for name, part in parts.items()}
    assert not sources["train"] & sources["validation"]
    assert not sources["train"] & sources["test"]
    assert not sources["validation"] & sources["test"]
    assert said.lines[0] == "train: 520 pairs in parts/train.tsv"
    assert said.lines[-1] == "next: heedful new parts/train.tsv parts/validation.tsv parts/test.tsv"
    assert say("new", "parts/train.tsv", "parts/validation.tsv", "parts/test.tsv").code == 0


def test_order_does_not_matter_and_more_data_keep_what_was_held_out(here: Path, say: Say) -> None:
    shuffled = random.Random(5).sample(PAIRS, len(PAIRS))
    save(here / "pairs.tsv", PAIRS)
    save(here / "shuffled.tsv", shuffled)
    assert say("split", "pairs.tsv", "-o", "a", "--test", "0").code == 2, "1,000 are too many"
    for name in ("pairs", "shuffled"):
        assert say("split", f"{name}.tsv", "-o", name, "--validation", "40", "--test", "0").code == 0
    held = [set(read(here / f"{name}/validation.tsv")) for name in ("pairs", "shuffled")]
    assert held[0] == held[1]
    assert not (here / "pairs/test.tsv").exists()
    grown = [*PAIRS, *((f"another cat {n} is there and not here", f"eine Katze {n} ist dort") for n in range(60))]
    save(here / "grown.tsv", grown)
    assert say("split", "grown.tsv", "-o", "grown", "--validation", "44", "--test", "0").code == 0
    still = set(read(here / "grown/validation.tsv"))
    assert len(held[0] & still) > 30


def test_other_tasks_are_split_too(here: Path, say: Say) -> None:
    rows = [f"what is number {n}\t{'yes' if n % 2 else 'no'}\n" for n in range(200)]
    (here / "labelled.tsv").write_text("".join(rows))
    said = say("split", "labelled.tsv", "-o", "parts", "--validation", "20", "--test", "20", "--task", "classification")
    assert said.code == 0, said.err
    assert len((here / "parts/test.tsv").read_text().splitlines()) == 20


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["pairs.tsv", "-o", "p", "--validation", "0"], "--validation: 0; must be from 1 to 50,000"),
        (["pairs.tsv", "-o", "p", "--test", "-1"], "--test: -1; must be from 0 to 50,000"),
        (["pairs.tsv", "-o", "p", "--test", "60000"], "--test: 60000; must be from 0 to 50,000"),
        (["pairs.tsv", "-o", "p", "--test", "400"], "would leave less than half for training; take fewer"),
        (["-", "-o", "p"], "standard input cannot be; save it to a file first"),
        (["none.tsv", "-o", "p"], "none.tsv"),
        (["train.tsv", "test.tsv", "-o", "p"], "are already parts, by their names (train, test)"),
        (["train.tsv", "-o", ".", "--test", "9", "--validation", "9"], "train.tsv: would be overwritten while"),
        (["pairs.tsv", "-o", "there", "--test", "9", "--validation", "9"], "there/test.tsv: already exists"),
        (["pairs.tsv", "-o", "pairs.tsv/in", "--test", "9", "--validation", "9"], "cannot be written"),
        (["same.tsv", "-o", "p", "--test", "9", "--validation", "9"], "cannot be split into 3 parts"),
    ],
)
def test_mistakes(words: list[str], complaint: str, here: Path, say: Say) -> None:
    for name in ("pairs", "train", "test"):
        save(here / f"{name}.tsv", PAIRS)
    save(here / "same.tsv", [(PAIRS[0][0], target) for _, target in PAIRS])
    (here / "there").mkdir()
    (here / "there/test.tsv").write_text("")
    assert complaint in say("split", *words).complaint
    assert len(read(here / "train.tsv")) == len(PAIRS)
