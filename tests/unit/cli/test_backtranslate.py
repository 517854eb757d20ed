"""`heedful backtranslate`: pairs to train on, of which one side is written by a model; what is interrupted goes on."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.cli import translation_commands
from heedful.data.readers import TsvPairReader

Say = Callable[..., Any]
SENTENCES = ["1 2", "3 4 5", "", "7", " ", "8\t9", "1 1 1", "2"]
FULL = [sentence for sentence in SENTENCES if sentence.strip()]


@pytest.fixture
def text(here: Path) -> Path:
    (here / "more.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES), encoding="utf-8")
    return here


@pytest.fixture(autouse=True)
def _saved_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation_commands, "_CHUNK_SIZE", 2)


def test_what_the_model_writes_stands_before_the_line(text: Path, trained: Path, say: Say) -> None:
    said = say("backtranslate", trained, "more.txt", "-o", "made.tsv", "--device", "cpu")
    assert said.code == 0, said.err
    assert said.out == "written: made.tsv, 6 pairs\n"
    translator = heedful.load(trained, kind=heedful.Translator, device="cpu")
    expected = [each.text for each in translator.translate(FULL)]
    pairs = list(TsvPairReader(text / "made.tsv"))
    assert [pair.source for pair in pairs] == expected
    assert [pair.target for pair in pairs] == [sentence.replace("\t", r"\t") for sentence in FULL]
    (text / "more.txt.gz").write_bytes(gzip.compress((text / "more.txt").read_bytes()))
    assert say("backtranslate", trained, "more.txt.gz", "-o", "z.tsv", "--tag", "<bt>", "--device", "cpu").code == 0
    assert [pair.source for pair in TsvPairReader(text / "z.tsv")] == [
        f"<bt> {each}" if each else "" for each in expected
    ]


@pytest.mark.parametrize("left", [0, 1, 30, 37, 10_000])
@pytest.mark.parametrize("search", ["beam", "sampling"])
def test_what_was_interrupted_goes_on_as_if_it_had_not_been(
    left: int, search: str, text: Path, trained: Path, say: Say
) -> None:
    command = ("backtranslate", trained, "more.txt", "--search", search, "--device", "cpu", "--tag", "<bt>")
    assert say(*command, "-o", "whole.tsv").code == 0
    whole = (text / "whole.tsv").read_bytes()
    torn = b"x" * 500 if left == 30 else b""  # of a line that was longer
    (text / "part.tsv").write_bytes(whole[:left] + torn)
    said = say(*command, "-o", "part.tsv")
    assert said.code == 0
    assert (text / "part.tsv").read_bytes() == whole
    assert ("pairs exist already; continuing after them" in said.err) == (whole[:left].count(b"\n") > 0)


def test_what_is_there_stays_unless_it_may_be_replaced(text: Path, trained: Path, say: Say) -> None:
    command = ("backtranslate", trained, "more.txt", "-o", "made.tsv", "--device", "cpu")
    for content in ("eins\tsomething else\n", "no table\n", "eins\t1 2\n" * 7):
        (text / "made.tsv").write_text(content)
        complaint = say(*command).complaint
        assert "was not written by this command from more.txt; choose another --output, or add --overwrite" in complaint
        assert (text / "made.tsv").read_text() == content
    assert say(*command, "--overwrite").code == 0
    assert "made.tsv:1: was not written" in say(*command, "--tag", "<bt>").complaint, "which was written without"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["none.txt", "-o", "made.tsv"], "none.txt"),
        (["more.txt", "-o", "more.txt"], "--output: more.txt is read as well; choose another file"),
        (["more.txt", "-o", "made.tsv", "--tag", "two words"], "--tag: 'two words' is not one word"),
        (["more.txt", "-o", "made.tsv", "--tag", " "], "--tag: ' ' is not one word"),
        (["more.txt", "-o", "none/made.tsv"], "none/made.tsv: cannot be written"),
        (["more.txt", "-o", "made.tsv", "--batch-tokens", "0"], "batch-tokens"),
        (["more.txt", "-o", "made.tsv", "--search", "greedy", "--beam", "3"], "beam"),
        (["bytes.txt", "-o", "made.tsv"], "bytes.txt:1"),
    ],
)
def test_mistakes(words: list[str], complaint: str, text: Path, trained: Path, say: Say) -> None:
    (text / "bytes.txt").write_bytes(b"\xff\xfe")
    before = (text / "more.txt").read_bytes()
    assert complaint in say("backtranslate", trained, *words).complaint
    assert not (text / "made.tsv").exists()
    assert (text / "more.txt").read_bytes() == before
