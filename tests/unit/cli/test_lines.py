"""What commands that read lines share."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.cli.line_commands import write_answers
from heedful.tasks.predictor import TextLineFormat, iter_chunks

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
    more = {"score": ["--data", "x"], "align": ["--data", "x"], "inspect": ["--text", "x"]}.get(command, [])
    assert say(command, "run", "--threads", "0", *more).complaint == "--threads: 0; must be at least 1"


@pytest.mark.parametrize("command", ["tag", "fill", "classify", "answer", "embed"])
def test_nothing_is_read_and_written_at_once(say: Say, here: Path, command: str) -> None:
    Path("text").write_text("a\n")
    assert say(command, "run", "--input", "text", "--output", "text").complaint == (
        "--output: text is read as well; choose another file"
    )
    assert Path("text").read_text() == "a\n"


@pytest.mark.parametrize(
    "command", ["tag", "fill", "detect", "classify", "answer", "embed", "look", "caption", "transcribe", "generate"]
)
def test_an_output_is_tried_before_a_model_is_loaded(
    say: Say, trained: Path, command: str, unloaded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.runs.load.load_embedder", lambda *_, **__: pytest.fail("a model is loaded"))
    complaint = "no/where: cannot be written (No such file or directory); choose another --output"
    assert say(command, trained, "--output", "no/where").complaint == complaint


@pytest.mark.parametrize(
    ("command", "use"),
    [
        ("tag", "tags words"),
        ("fill", "fills gaps"),
        ("detect", "finds replaced tokens"),
        ("classify", "classifies texts"),
        ("answer", "answers questions"),
        ("look", "looks at pictures"),
        ("caption", "describes pictures or clips"),
        ("transcribe", "transcribes"),
        ("generate", "writes"),
        ("chat", "talks"),
        ("ask", "answers questions about stories"),
    ],
)
def test_a_run_of_another_task_is_named(say: Say, trained: Path, here: Path, command: str, use: str) -> None:
    Path("story").write_text("Ada went home.\n")
    more = {"ask": ("story", "Where is Ada?"), "generate": ()}.get(command, ("--input", "story"))
    complaint = (
        f"{trained}: is a translator and not a model that {use}; use it with heedful translate, or give another model"
    )
    assert say(command, trained, *(more if command != "chat" else ())).complaint == complaint


def test_an_output_keeps_its_content_where_nothing_was_answered(say: Say, tuned: Tuned, here: Path) -> None:
    out = Path("out")
    out.write_text("before")
    words = ("classify", tuned("classification"), "--output", "out")
    assert "standard input:1: 3 texts" in say(*words, stdin="a\tb\tc\n").complaint
    assert out.read_text() == "before"
    assert say(*words, stdin="").code == 0
    assert out.read_text() == ""


def test_long_streams_are_answered_in_chunks(
    say: Say, tuned: Tuned, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    run, texts = tuned("tagging"), ["eins zwei", "", "drei", "vier fünf sechs", "sieben"]
    Path("t.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
    whole = say("tag", run, "--input", "t.gz").out
    monkeypatch.setattr("heedful.tasks.tagging.predictor.TagLineFormat.chunk_size", 2)
    assert say("tag", run, stdin="\n".join(texts)).out == whole
    found = heedful.load(run).tag([text.split() for text in texts])
    assert whole == "".join("".join(f"{tag.word}\t{tag.name}\n" for tag in tags) + "\n" for tags in found)


@pytest.mark.parametrize("more", [(), ("--input", "-")])
def test_whoever_types_is_answered_line_by_line(
    say: Say, trained: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    sizes = []

    def recorded(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
        sizes.append(size)
        return iter_chunks(items, size)

    monkeypatch.setattr("heedful.tasks.predictor.iter_chunks", recorded)
    words = ("translate", trained, "--device", "cpu", *more)
    together = say(*words, stdin="1\n2\n")
    assert together.err == ""
    typed = say(*words, stdin="1\n2\n", typed=True)
    assert typed.out == together.out
    assert typed.err == "each line is answered once it is typed; Ctrl-D on an empty line ends\n"
    assert say("translate", trained, "1", "2", "--device", "cpu", typed=True).err == ""
    assert sizes[1] == 1
    assert min(sizes[0], sizes[2]) > 1


def test_texts_may_stand_behind_the_run(say: Say, trained: Path, tuned: Tuned) -> None:
    for run, command in ((trained, "translate"), (tuned("tagging"), "tag"), (tuned("classification"), "classify")):
        told = say(command, run, "--text", "1 2", "3", "--device", "cpu")
        assert told.code == 0, told.err
        assert say(command, run, "1 2", "3", "--device", "cpu") == told
    assert (
        say("translate", trained, "1", "--text", "2").complaint == "--text: is given, and so is '1'; give one of them"
    )
    assert say("translate", trained, "1", "--input", "x").complaint.startswith("--text and --input: give one of them")
    assert say("translate", trained, "no/run", "1").complaint.startswith("no/run: no such run folder")


def test_a_hyphen_is_standard_input(say: Say, trained: Path, here: Path) -> None:
    Path("pairs.tsv").write_text("1\teins\n2\tzwei\n")
    Path("source").write_text("1\n2\n")
    for command in ("score", "align"):
        wanted = say(command, trained, "--data", "pairs.tsv", "--device", "cpu")
        assert wanted.code == 0, wanted.err
        assert say(command, trained, "--data", "-", "--device", "cpu", stdin="1\teins\n2\tzwei\n") == wanted
        words = (command, trained, "--source", "source", "--target", "-", "--device", "cpu")
        assert say(*words, stdin="eins\nzwei\n") == wanted
    assert say("score", trained, "--source", "-", "--target", "-").complaint == (
        "--source and --target: both are standard input; name a file for one of them"
    )
    wanted = say("translate", trained, "--text", "1", "2", "--prefix", "eins", "--device", "cpu")
    assert say("translate", trained, "1", "2", "--prefixes", "-", "--device", "cpu", stdin="eins\neins\n") == wanted
    assert say("translate", trained, "--prefixes", "-").complaint.startswith("--prefixes: standard input cannot hold")


def test_recipes_and_answers_may_stand_on_standard_input(say: Say, trained: Path, here: Path) -> None:
    Path("recipe.toml").write_text((trained.parent / "small.toml").read_text())
    wanted = say("train", "recipe.toml", "--print-config")
    assert wanted.code == 0
    assert say("train", "-", "--print-config", stdin=Path("recipe.toml").read_text()) == wanted
    Path("pairs.tsv").write_text("1\teins\n2\tzwei\n")
    Path("answers").write_text("eins\ndrei\n")
    measured = ("--data", "pairs.tsv", "--samples", "5")
    wanted = say("evaluate", "answers", *measured)
    assert wanted.code == 0, wanted.err
    assert say("evaluate", "-", *measured, stdin="eins\ndrei\n").out == wanted.out.replace("answers", "-")


@pytest.mark.parametrize("command", ["translate", "score", "align", "inspect", "tag", "generate", "chat", "embed"])
def test_checkpoints_are_named_alike(say: Say, command: str) -> None:
    assert "--step INT" in say(command, "--help").out


def test_a_checkpoint_that_was_not_kept_is_told(say: Say, trained: Path) -> None:
    words = ("--source", trained.parent / "validation.en", "--target", trained.parent / "validation.de")
    told = [
        say("score", trained, *words, "--step", "999").complaint,
        say("inspect", trained, "1", "--step", "999").complaint,
    ]
    assert all("999" in each for each in told), told


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (("generate", "x", "--samples", "2"), "--samples is now called --n-best"),
        (("generate", "x", "--prompts-file", "-"), "--prompts-file is now called --input"),
        (("search", "x", "--queries", "y"), "--queries is now called --input"),
        (("inspect", "x", "--source", "y"), "--source is now called --text"),
        (("compare", "x", "--html", "y.html"), "--html is now called --page"),
        (("evaluate", "x", "--save", "y"), "--save is now called --output"),
        (("describe", "x.toml", "--diagram", "y.svg"), "--diagram is now called --figure"),
    ],
)
def test_former_names_are_taken_with_a_note(say: Say, here: Path, words: tuple[str, ...], note: str) -> None:
    first, *_, last = say(*words).err.splitlines()
    assert first == f"{note}; the next version will not accept the old name"
    assert last.startswith("heedful: x"), "and the command goes on, to a run that is not there"


def test_messages_count_through_all_chunks(say: Say, pretrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.tasks.pretraining.predictor.FillLineFormat.chunk_size", 2)
    told = say("fill", pretrained, stdin="[MASK]\n[MASK]\n[MASK]\nnone\n")
    assert told.code == 2
    assert "text 4: has no [MASK]" in told.err
    assert told.out.count("\n") == 4, "what was answered before is there"


class _Echo(TextLineFormat[str]):
    """Answers each text with itself."""

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> Sequence[str]:
        return inputs

    def to_json(self, answer: str) -> str:
        return answer


@pytest.mark.parametrize("chunk", [1, 2])
def test_answers_are_there_before_more_is_read(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever types, or another program that waits for each answer, reads what has been answered so far."""
    kept = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(_Kept(kept)), encoding="utf-8"))
    seen: list[list[str]] = []
    output = tmp_path / "answers"

    def inputs(read: Callable[[], bytes]) -> Iterator[str]:
        for number in range(5):
            seen[-1].append(read().decode())
            yield f"{number}"

    for path, read in ((None, kept.getvalue), (output, output.read_bytes)):
        seen.append([])
        assert write_answers(_Echo(), inputs(read), output=path, as_json=True, chunk=chunk) == 0
    answers = [f'"{number}"\n' for number in range(5)]
    expected = ["".join(answers[: number // chunk * chunk]) for number in range(5)]
    assert seen == [expected, expected]


class _Kept(io.RawIOBase):
    """Where bytes arrive once they are flushed."""

    def __init__(self, kept: io.BytesIO) -> None:
        self._kept = kept

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        return self._kept.write(content)
