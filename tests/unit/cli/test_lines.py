"""What commands that read lines share."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

import heedful

Say = Callable[..., "Said"]
Tuned = Callable[[str], Path]


@pytest.mark.parametrize("command", ["tag", "fill", "detect", "classify", "answer", "embed", "translate"])
def test_shared_options_are_there_for_all(say: Say, command: str) -> None:
    told = say(command, "--help").out
    for option in ("--input PATH", "--output PATH", "--device TEXT", "--threads INT"):
        assert option in told
    assert ("--text" in told) == (command != "answer")
    assert ("--task TEXT" in told) == (command != "translate")


@pytest.mark.parametrize(
    "command", ["tag", "fill", "classify", "answer", "embed", "score", "align", "generate", "inspect"]
)
def test_threads_are_counted_from_one(say: Say, command: str) -> None:
    more = {"score": ["--data", "x"], "align": ["--data", "x"], "inspect": ["--source", "x"]}.get(command, [])
    assert say(command, "run", "--threads", "0", *more).complaint == "--threads: 0; must be at least 1"


@pytest.mark.parametrize("command", ["tag", "fill", "classify", "answer", "embed"])
def test_nothing_is_read_and_written_at_once(say: Say, here: Path, command: str) -> None:
    Path("text").write_text("a\n")
    assert say(command, "run", "--input", "text", "--output", "text").complaint == (
        "--output: text is read as well; choose another file"
    )
    assert Path("text").read_text() == "a\n"


def test_an_output_keeps_its_content_where_nothing_was_answered(say: Say, tuned: Tuned, here: Path) -> None:
    out = Path("out")
    out.write_text("before")
    words = ("classify", tuned("classification"), "--output", "out")
    assert "line 1: 3 texts" in say(*words, stdin="a\tb\tc\n").complaint
    assert out.read_text() == "before"
    assert say(*words, stdin="").code == 0
    assert out.read_text() == ""


def test_long_streams_are_answered_in_chunks(
    say: Say, tuned: Tuned, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    run, texts = tuned("tagging"), ["eins zwei", "", "drei", "vier fünf sechs", "sieben"]
    Path("t.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
    whole = say("tag", run, "--input", "t.gz").out
    monkeypatch.setattr("heedful.tasks.tagging.face.TagLines.chunk", 2)
    assert say("tag", run, stdin="\n".join(texts)).out == whole
    found = heedful.load(run).tag([text.split() for text in texts])
    assert whole == "".join("".join(f"{tag.word}\t{tag.name}\n" for tag in tags) + "\n" for tags in found)


def test_messages_count_through_all_chunks(say: Say, pretrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.tasks.pretraining.face.FillLines.chunk", 2)
    told = say("fill", pretrained, stdin="[MASK]\n[MASK]\n[MASK]\nnone\n")
    assert told.code == 2
    assert "text 4: has no [MASK]" in told.err
    assert told.out.count("\n") == 4, "what was answered before is there"
