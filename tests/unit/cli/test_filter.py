"""`heedful filter`: what stays, what does not and why, and every way to ask wrongly."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Say = Callable[..., Any]

GOOD = [
    (f"the dog number {n} is in the house and it is not here", f"der Hund {n} ist in dem Haus und er ist nicht hier")
    for n in range(40)
]
BAD = [
    (("", "nichts"), "empty"),
    (("the fÃ¼r dog is here", "der Hund ist hier"), "garbled"),
    (("Copy these words", "Copy these words"), "copied"),
    (("a dog " * 300, "ein Hund " * 300), "long"),
    (("the dog is in the house and it is not in the garden for a day", "ja"), "unequal"),
    (("der Hund ist nicht hier und das ist auch gut", "the dog is not here and that is good"), "language"),
    (GOOD[0], "repeated"),
]


@pytest.fixture
def corpus(here: Path) -> Path:
    """In the current folder."""
    rows = [*GOOD, *(pair for pair, _ in BAD)]
    (here / "train.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    for side, ending in enumerate(("en", "de")):
        (here / f"train.{ending}").write_text("".join(f"{pair[side]}\n" for pair in rows), encoding="utf-8")
    return here


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_what_stays_is_written_as_it_was_and_the_rest_with_its_reason(corpus: Path, say: Say) -> None:
    said = say("filter", "train.tsv", "-o", "clean", "--rejected", "no.tsv", "--report", "page.html")
    assert said.code == 0, said.err
    assert lines(corpus / "clean/train.tsv") == [f"{source}\t{target}" for source, target in GOOD]
    rejected = [line.split("\t") for line in lines(corpus / "no.tsv")]
    assert [row[0] for row in rejected] == [name for _, name in BAD]
    assert [row[2] for row in rejected] == [f"train.tsv:{41 + n}" for n in range(len(BAD))]
    assert rejected[2][3:] == ["Copy these words", "Copy these words"]
    assert "kept" in said.out
    assert said.lines[-1] == "next: heedful new clean/train.tsv"
    assert "repeated: that repeat another one (1)" in (corpus / "page.html").read_text(encoding="utf-8")
    assert say("new", "clean/train.tsv").code == 0


def test_two_files_stay_two_and_zipped_ones_zipped(corpus: Path, say: Say) -> None:
    assert say("filter", "train.en", "train.de", "-o", "clean").code == 0
    assert lines(corpus / "clean/train.en") == [source for source, _ in GOOD]
    assert lines(corpus / "clean/train.de") == [target for _, target in GOOD]
    for ending in ("en", "de"):
        (corpus / f"zipped.{ending}.gz").write_bytes(gzip.compress((corpus / f"train.{ending}").read_bytes()))
    assert say("filter", "zipped.en.gz", "zipped.de.gz", "-o", "z").code == 0
    assert gzip.decompress((corpus / "z/train.de.gz").read_bytes()) == (corpus / "clean/train.de").read_bytes()


def test_objects_keep_their_other_fields(corpus: Path, say: Say) -> None:
    rows = [{"id": n, "en": en, "de": de} for n, (en, de) in enumerate([*GOOD, GOOD[1]])]
    (corpus / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert say("filter", "t.jsonl", "-o", "clean", "--columns", "en", "de").code == 0
    assert [json.loads(line) for line in lines(corpus / "clean/train.jsonl")] == rows[:-1]


def test_rules_can_be_left_out_and_added(corpus: Path, say: Say) -> None:
    said = say("filter", "train.tsv", "-o", "a", "--skip", "empty", "long", "unequal", "--also", "numbers", "html")
    assert said.code == 0
    assert "rules: garbled, html, copied, numbers, language, repeated" in said.err
    assert len(lines(corpus / "a/train.tsv")) == 40 + 3
    assert say("filter", "train.tsv", "-o", "b", "--longest", "1000", "--ratio", "50").code == 0
    assert len(lines(corpus / "b/train.tsv")) == 40 + 2


def test_models_give_scores(trained: Path, here: Path, say: Say) -> None:
    rows = [("1 2", "eins zwei"), ("3", "drei"), ("4 5", "vier fünf"), ("7 7", "null eins zwei drei vier")]
    (here / "train.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    said = say(
        *("filter", "train.tsv", "-o", "clean", "--columns", "0", "1", "--models", trained, trained, "--keep", "0.5"),
        *("--rejected", "no.tsv", "--report", "p.html", "--device", "cpu"),
    )
    assert said.code == 0, said.err
    assert len(lines(here / "clean/train.tsv")) == 2
    rejected = [line.split("\t") for line in lines(here / "no.tsv")]
    assert [row[0] for row in rejected] == ["score", "score"]
    assert all(0 < float(row[1]) < 1 for row in rejected)
    assert "How far two models agree" in (here / "p.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--longest", "0"], "--longest: 0; must be at least 1"),
        (["--processes", "0"], "--processes: 0; must be at least 1"),
        (["--ratio", "1"], "--ratio: 1; must be above 1"),
        (["--ratio", "inf"], "--ratio: inf; must be above 1"),
        (["--languages", "en"], "--languages: takes two codes"),
        (["--languages", "en", "klingon"], "--languages: 'klingon' is not the code of a known language"),
        (["--models", "a"], "--models: takes two runs"),
        (["--models", "a", "b"], "models give scores, and --keep or --least sets which scores are kept"),
        (["--keep", "0.5"], "models give scores, and --keep or --least sets which scores are kept"),
        (["--models", "a", "b", "--keep", "0"], "--keep: 0; must be above 0, and at most 1"),
        (["--models", "a", "b", "--least", "1.5"], "--least: 1.5; must be above 0, and at most 1"),
        (["--models", "a", "b", "--keep", "0.5"], "a: no such run folder"),
        (["--skip", "everything"], "everything"),
        (["--report", "page.txt"], "page.txt"),
        (["--rejected", "train.tsv"], "train.tsv: would be overwritten while it is read"),
        (["--rejected", "there.tsv"], "there.tsv: already exists; choose another place, or add --overwrite"),
        (["-o", "."], "train.tsv: would be overwritten while it is read"),
        (["-o", "there.tsv/in"], "cannot be written"),
    ],
)
def test_mistakes(words: list[str], complaint: str, corpus: Path, say: Say) -> None:
    (corpus / "there.tsv").write_text("")
    before = (corpus / "train.tsv").read_bytes()
    where = [] if "-o" in words else ["-o", "clean"]
    assert complaint in say("filter", "train.tsv", *where, *words).complaint
    assert not (corpus / "clean/train.tsv").exists()
    assert (corpus / "train.tsv").read_bytes() == before


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        (["none.tsv"], "none.tsv"),
        (["-"], "standard input cannot be; save it to a file first"),
        (["train.en", "train.de", "test.en", "test.de"], "validation and test data must not be filtered"),
        (["labels.tsv"], "labels.tsv"),
    ],
)
def test_files_that_are_no_corpus(files: list[str], complaint: str, corpus: Path, say: Say) -> None:
    for ending in ("en", "de"):
        (corpus / f"test.{ending}").write_text((corpus / f"train.{ending}").read_text())
    (corpus / "labels.tsv").write_text("good\n" * 20)
    said = say("filter", *files, "-o", "clean")
    assert (said.code, said.out) == (2, "")
    assert complaint in said.err


def test_nothing_stays_is_told_and_nothing_is_written(here: Path, say: Say) -> None:
    (here / "train.tsv").write_text("the same words\tthe same words\n" * 30)
    said = say("filter", "train.tsv", "-o", "clean", "--columns", "0", "1")
    assert said.code == 2
    assert "no pair is kept" in said.err
    assert "copied" in said.err
    assert not (here / "clean/train.tsv").exists()
