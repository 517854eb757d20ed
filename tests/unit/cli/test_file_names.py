"""Which words of a command line are names of files, and which are texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from heedful.cli.option_types import is_file_name, path_exists
from tests.unit.cli.conftest import Said

Say = Callable[..., Said]

FILES = (
    "letter.docx",
    "LETTER.DOCX",
    "my letter.docx",
    "train.en.gz",
    "test.de",
    "job.po",
    "scan.pdf",
    "talk.mp3",
    "dog.jpeg",
    "table.csv",
    "*.srt",
    "runs/my-run",
    "and/or",
    "./letter",
    "./my letter",
    "../x y",
    "~/notes",
    "~/my notes",
    "/tmp/a b",
    "/home/me/letter",
    "C:\\letters\\one",
    "C:\\Program Files\\one",
    "C:/letters/one",
    "\\\\server\\letters\\one",
    "letters\\one",
    "Größe.txt",
)
TEXTS = (
    "Hello.",
    "a dog",
    "e.g.",
    "z.B.",
    "U.S.A.",
    "Node.js",
    "v2.0",
    "3.5",
    "3/4",
    "24/7",
    "10/12/2026",
    "this and/or that",
    "a dog / a cat",
    "</b>",
    "https://example.com/a.html",
    "Read letter.docx.",
    "see spiegel.de",
    "Wait...",
    "-",
    "",
    "/",
    "one line\nletter.docx",
    "/me waves",
)


@pytest.mark.parametrize("word", FILES)
def test_names_of_files(word: str) -> None:
    assert is_file_name(word)


@pytest.mark.parametrize("word", TEXTS)
def test_texts(word: str) -> None:
    assert not is_file_name(word)


def test_a_text_that_is_longer_than_any_name_is_not_there() -> None:
    assert not path_exists("dog " * 100)
    assert not path_exists("dog/" * 2000)
    assert not path_exists("a\0b")


@pytest.mark.parametrize("command", ["classify", "tag", "predict", "fill", "detect", "identify", "embed"])
def test_the_name_of_a_file_is_never_answered(say: Say, here: Path, command: str) -> None:
    absent = say(command, "run", "letter.docx").complaint
    assert absent == "letter.docx: there is no such file; check the name, or write --text letter.docx if it is a text"
    (here / "there.txt").touch()
    present = say(command, "run", "a dog", "there.txt").complaint
    assert present.startswith("there.txt: is a file, but a text is expected here; give it with --input to read")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("generate", "run", "my prompt.txt"), "--prompt 'my prompt.txt'"),
        (("search", "index", "q.txt"), "--query q.txt"),
        (("answer", "run", "Who?", "text.txt"), "--context text.txt"),
        (("inspect", "run", "photo.xyz/a"), "--text photo.xyz/a"),
    ],
)
def test_each_command_names_the_option_for_text(say: Say, here: Path, words: tuple[str, ...], option: str) -> None:
    assert f"there is no such file; check the name, or write {option} if it is a text" in say(*words).complaint


@pytest.mark.parametrize("name", ["letter.docx", "my letter.docx", "job.po", "job.xlf", "film.srt", "page.html"])
def test_a_file_that_is_not_there_is_not_translated(say: Say, here: Path, trained: Path, name: str) -> None:
    assert say("translate", trained, name, "-o", f"out-{name}").complaint == (
        f"{name}: there is no such file; check the path"
    )
    assert not list(here.iterdir())


@pytest.mark.parametrize("name", ["a.xlsx", "a.vtt", "a.md", "a.json", "a.csv", "a.en"])
def test_formats_that_are_not_filled_are_told_those_that_are(say: Say, here: Path, trained: Path, name: str) -> None:
    (here / name).touch()
    told = say("translate", trained, name).complaint
    assert told.startswith(f"{name}: is a file and not a run folder; files that are filled end with .docm, .docx, ")
    assert "--input FILE" in told


def test_an_option_takes_any_word_as_text(say: Say, here: Path, trained: Path) -> None:
    said = say("translate", trained, "--text", "letter.docx", "and/or")
    assert (said.code, len(said.lines)) == (0, 2)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("job.po", "-o", "job.xlf"), "--output: job.xlf ends with .xlf, but job.po is written in its own format"),
        (("a.docx", "-o", "a.odt"), "--output: a.odt ends with .odt, but a.docx is written"),
        (("a.docx", "-o", "a.docm"), "--output: a.docm ends with .docm, but a.docx is written"),
        (("a.docx", "-o", "a.pdf"), "--output: a.pdf ends with .pdf, but a.docx is written"),
        (("a.srt", "-o", "a.HTML"), "--output: a.HTML ends with .html, but a.srt is written"),
        (("--input", "a.po", "-o", "a.po.gz"), "--output: a.po.gz ends with .gz, but a.po is written"),
        (("a dog", "-o", "a.docx"), "--output: a.docx ends like a file to be filled, but lines are written"),
        (("a dog", "-o", "a.xlsx"), "--output: a.xlsx ends with .xlsx, but lines of plain text are written"),
    ],
)
def test_no_file_is_written_under_the_name_of_another_format(
    say: Say, here: Path, words: tuple[str, ...], told: str
) -> None:
    assert say("translate", "run", *words).complaint.startswith(told)
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    ("first", "second"), [("a.htm", "b.html"), ("a.po", "b.pot"), ("a.xlf", "b.xml"), ("a.srt", "b.txt"), ("a.po", "b")]
)
def test_names_of_one_format_are_the_same(say: Say, here: Path, first: str, second: str) -> None:
    assert say("translate", here, first, "-o", second).complaint.startswith(f"{here}: contains no manifest.json")


@pytest.mark.parametrize("files", ["a.en a.sw", "a.tsv b.tsv", "recipe.toml a.tsv"])
def test_train_names_the_command_that_writes_a_recipe(say: Say, files: str) -> None:
    assert say("train", *files.split()).complaint.endswith(
        f": a recipe is expected here; if these are data, write a recipe for them first: heedful new {files}"
    )


def test_train_names_it_for_one_file_as_well(say: Say, here: Path) -> None:
    (here / "a.tsv").write_text("a\tb\n")
    told = say("train", "a.tsv").err
    assert "a.tsv: is not valid TOML" in told
    assert told.endswith("if these are data, write a recipe for them first: heedful new a.tsv\n")
