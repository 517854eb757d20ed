from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

from heedful.cli.arguments import parse_arguments, parse_known_arguments
from heedful.cli.option_parser import OptionInfo, Positional, PositionalAlias, RenamedFrom, build_parser
from heedful.errors import RecipeError


@dataclass(frozen=True)
class Baking:
    """Bakes bread.

    Slowly.
    """

    flour: Annotated[str, Positional]
    """what to bake from"""
    hours: int = 2
    """how long"""
    dark_crust: bool = False
    """whether to leave it in for longer"""
    salt: Annotated[float | None, OptionInfo(["-s", "--sodium"])] = None
    """grams"""


def test_fields_become_options() -> None:
    words = ["rye", "--hours", "3", "--dark-crust", "-s", "1.5"]
    assert parse_arguments(Baking, words, program="bake") == Baking("rye", 3, True, 1.5)
    assert parse_known_arguments(Baking, ["rye"], program="bake") == (Baking("rye"), [])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("rye --hours x", "--hours: 'x' is not a whole number"),
        ("--hours x", "--hours: 'x' is not a whole number"),
        ("rye --sodium x", "--salt: 'x' is not a number"),
        ("rye -s 0,5", "--salt: '0,5' is not a number; write 0.5"),
        ("rye --hours", "--hours: has no value; give a whole number, as in --hours 4"),
        ("rye --hours --dark-crust", "--hours: has no value; give a whole number, as in --hours 4"),
        ("rye --dark-crust=yes", "--dark-crust: takes no value; leave out =yes"),
        ("rye --huors 3", "bake: --huors is not an option; did you mean --hours?"),
        ("rye --xyz 3", "bake: --xyz is not an option; see bake --help"),
        ("rye -x", "bake: -x is not an option; see bake --help"),
        (
            "rye oat",
            "bake: 'oat' is one word too many; put quotes around words that belong together, or see bake --help",
        ),
        ("--hours 3", "bake: needs FLOUR; write bake FLOUR"),
    ],
)
def test_misuse_is_told_in_one_line(words: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_arguments(Baking, words.split(), program="bake")
    assert str(caught.value) == sentence
    assert capsys.readouterr() == ("", "")


class _Terminal(io.StringIO):
    """Standard output as a terminal that knows colours and lines to draw with."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_help_keeps_its_colours_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", _Terminal())
    for name in ("TERM", "FORCE_COLOR"):
        monkeypatch.setenv(name, {"TERM": "xterm-256color"}.get(name, "1"))
    with pytest.raises(SystemExit):
        parse_arguments(Baking, ["--help"], program="bake")
    assert "\x1b[" in sys.stdout.getvalue()  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Size:
    """How large."""

    width: int = 3


@dataclass(frozen=True)
class Serving:
    """Serves what was baked."""

    plates: Annotated[tuple[Path, ...], Positional]
    words: Annotated[tuple[str, ...], PositionalAlias()] = ()
    """said with it"""
    colour: Annotated[Literal["dark", "light"] | None, RenamedFrom("--color")] = None
    pair: tuple[Path, Path] | None = None
    depth: float = 0.0
    size: Size = Size()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a"], {}),
        (["a", "x/y"], {"plates": (Path("a"), Path("x/y"))}),
        (["a", "a dog"], {"words": ("a dog",)}),
        (["a", "there", "dog", "there"], {"plates": (Path("a"), Path("there")), "words": ("dog", "there")}),
        (["a", "a dog / a cat", "-"], {"words": ("a dog / a cat", "-")}),
        (["a", "--", "-x", "--depth"], {"words": ("-x", "--depth")}),
        (["a", "--words=-x"], {"words": ("-x",)}),
        (["--words", "one", "two", "a"], {"words": ("one", "two")}),
        (["a", "--words", "one", "two"], {"words": ("one", "two")}),
        (["a", "--colour", "dark", "--width", "4"], {"colour": "dark", "size": Size(4)}),
        (["a", "--pair", "b", "c", "--depth", "-inf"], {"pair": (Path("b"), Path("c")), "depth": float("-inf")}),
        (["--depth=-3", "a"], {"depth": -3.0}),
    ],
)
def test_words_find_their_fields(
    words: list[str], expected: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").touch()
    assert parse_arguments(Serving, words, program="serve") == Serving(**({"plates": (Path("a"),)} | expected))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "serve: needs PLATES; write serve PLATES ..."),
        ("a --colour drak", "--colour: 'drak' is not one of dark, light; did you mean dark?"),
        ("a --colour Dark", "--colour: 'Dark' is not one of dark, light; did you mean dark?"),
        ("a --colour pink", "--colour: 'pink' is not one of dark, light"),
        ("a --colour", "--colour: has no value; give one of dark, light, as in --colour dark"),
        ("a --pair x", "--pair: has 1 value; give 2 of them, as in --pair PATH PATH"),
        ("a dog --words cat", "--words: is given, and so is 'dog'; give one of them"),
        ("a --pair= x", "--pair: has 1 value; give 2 of them, as in --pair PATH PATH"),
    ],
)
def test_words_that_do_not_fit(words: str, sentence: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_arguments(Serving, words.split(), program="serve")
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("rye --hours 2 --hours 3", "--hours: is given twice, as '2' and as '3'; give it once"),
        ("rye --hours=2 --hours=2", "--hours: is given twice, as '2' and as '2'; give it once"),
        ("rye -s 1 --sodium 2", "--sodium: is given twice, as '1' and as '2'; give it once"),
        (
            "rye --dark-crust --no-dark-crust",
            "--no-dark-crust: is given together with its opposite; leave one of them out",
        ),
    ],
)
def test_an_option_is_given_once(words: str, sentence: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_arguments(Baking, words.split(), program="bake")
    assert str(caught.value) == sentence
    with pytest.raises(RecipeError, match=r"--a\.b_c: is given twice; give it once"):
        parse_known_arguments(Baking, ["rye", "--a.b-c", "1", "--a.b_c=2"], program="bake")


def test_an_option_of_several_values_may_be_given_several_times() -> None:
    words = ["a", "--words", "one", "two", "--words", "three", "--words=four"]
    assert parse_arguments(Serving, words, program="serve").words == ("one", "two", "three", "four")
    assert parse_arguments(Baking, ["rye", "--dark-crust", "--dark-crust"], program="bake").dark_crust


@pytest.mark.parametrize("digits", ["1" + "0" * 30, "-" + "9" * 19, "9" * 5000])
def test_numbers_that_no_count_reaches_are_refused(digits: str) -> None:
    with pytest.raises(RecipeError, match=r"^--hours: .{1,60} is too large; give a number of at most 18 digits$"):
        parse_arguments(Baking, ["rye", f"--hours={digits}"], program="bake")
    with pytest.raises(RecipeError, match=r"^--salt: .{1,60} is not a number$"):
        parse_arguments(Baking, ["rye", "--salt", "x" * 5000], program="bake")


def test_a_former_name_is_taken_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse_arguments(Serving, ["a", "--color", "dark"], program="serve").colour == "dark"
    note = "--color is now called --colour; the next version will not accept the old name\n"
    assert capsys.readouterr() == ("", note)
    assert parse_arguments(Serving, ["a", "--colour", "dark"], program="serve").colour == "dark"
    assert capsys.readouterr() == ("", "")


def test_an_option_of_a_type_that_no_word_can_be_is_a_mistake_of_ours() -> None:
    @dataclass(frozen=True)
    class Odd:
        table: dict[str, int]

    with pytest.raises(TypeError, match="an option is a str, Path, int, float"):
        build_parser(Odd)


def test_help_is_made_of_docstrings(capsys: pytest.CaptureFixture[str]) -> None:
    for read in (parse_arguments, parse_known_arguments):
        with pytest.raises(SystemExit) as caught:
            read(Baking, ["--help"], program="bake")  # type: ignore[operator]
        assert caught.value.code == 0
        shown = capsys.readouterr().out
        assert "usage: bake" in shown
        for text in (
            "Bakes bread.",
            "Slowly.",
            "what to bake from",
            "--dark-crust",
            "whether to leave it in",
            "-s",
        ):
            assert text in shown


@pytest.mark.parametrize(
    ("words", "others"),
    [
        ("rye --training.steps 5 --hours 3", "--training.steps 5"),
        ("--seed 3 rye --hours 3", "--seed 3"),
        ("--hours 3 --a.b=1 --training.tensorboard --x.y -2 rye", "--a.b=1 --training.tensorboard --x.y -2"),
        ("rye --model.hours 9 --hours=3 --model.d-model 4", "--model.hours 9 --model.d-model 4"),
        ("rye --hours 3 --training.tensorboard", "--training.tensorboard"),
    ],
)
def test_options_of_others_are_set_apart(words: str, others: str) -> None:
    assert parse_known_arguments(Baking, words.split(), program="bake") == (Baking("rye", 3), others.split())


def test_own_options_are_never_taken_for_others() -> None:
    words = ["rye", "--no-dark-crust", "--sodium", "2", "--hours", "3"]
    assert parse_known_arguments(Baking, words, program="bake") == (Baking("rye", 3, False, 2.0), [])
    with pytest.raises(RecipeError, match="--dark-crst is not an option; did you mean --dark-crust"):
        parse_known_arguments(Baking, ["rye", "--dark-crst"], program="bake")
    with pytest.raises(RecipeError, match="'--seed' is one word too many"):
        parse_known_arguments(Baking, ["rye", "--", "--seed"], program="bake")


@dataclass(frozen=True)
class _Kitchen:
    """Cook."""

    pots: Annotated[tuple[Path, ...], Positional] = ()
    """pots to use; a text that is long enough for more than one line, whose second part is behind a
    line break"""
    heat: int = 0
    """degrees"""
    gas: bool = True
    """burn gas"""
    only: Annotated[Path | None, OptionInfo(["-o"], metavar="DISH")] = None
    """the dish to cook"""
    spices: tuple[Literal["salt", "pepper"], ...] = ("salt", "pepper")
    size: Size = Size()


def test_help_shows_types_defaults_and_groups(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        parse_arguments(_Kitchen, ["-h"], program="cook")
    assert capsys.readouterr().out.splitlines() == [
        "usage: cook [OPTIONS] [POTS ...]",
        "",
        "Cook.",
        "",
        "Arguments:",
        "  POTS ...              pots to use; a text that is long enough for more than",
        "                        one line, whose second part is behind a line break",
        "",
        "Options:",
        "  --heat INT            degrees (default: 0)",
        "  --gas, --no-gas       burn gas (default: on)",
        "  -o, --only DISH       the dish to cook",
        "  --spices {salt,pepper} ...",
        "                        (default: salt pepper)",
        "  -h, --help            show this help and exit",
        "",
        "How large:",
        "  --width INT           (default: 3)",
    ]
