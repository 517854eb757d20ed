"""A small trained model for examples, recipes and pages, and functions that run or check commands in this process."""

from __future__ import annotations

import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path

import pytest
from shape_checks import disable_shape_checks

from heedful.__main__ import main
from heedful.bundled import get_item, list_studies
from heedful.cli.arguments import parse_arguments, parse_known_arguments
from heedful.cli.commands import COMMANDS, load_arguments_class
from heedful.cli.train import parse_demonstration
from heedful.recipes.load import load_recipe
from heedful.serving.settings import load_settings

ROOT = Path(__file__).parents[2]
STAND_IN = """\
[data]
train = { source = "train.en", target = "train.de" }
validation = { source = "validation.en", target = "validation.de" }

[training]
steps = 1
"""
_OPERATORS = {"|", "&&", ";", "<", ">", ">>"}


@contextmanager
def change_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _run_example(name: str, folder: Path, *arguments: str) -> str:
    """Run an example in a folder and return what it prints."""
    printed = io.StringIO()
    path = ROOT / "examples" / name
    before, sys.argv = sys.argv, [str(path), *arguments]
    try:
        with change_folder(folder), redirect_stdout(printed):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv = before
    return printed.getvalue()


@pytest.fixture(autouse=True)
def _disable_shape_checks(unchecked: None) -> None:
    """Disable the checks of shapes, because unit tests check the same calls."""


@pytest.fixture(scope="session")
def example() -> Callable[..., str]:
    """Return a function that runs an example and returns its output, as in `example("train_in_python.py", folder)`."""
    return _run_example


@pytest.fixture(scope="session")
def example_folders(tmp_path_factory: pytest.TempPathFactory, example: Callable[..., str]) -> tuple[Path, Path]:
    """Run examples/train_in_python.py in a folder, with its output in printed.txt; return the folder and a copy."""
    folder = tmp_path_factory.mktemp("examples")
    with disable_shape_checks():
        (folder / "printed.txt").write_text(example("train_in_python.py", folder), encoding="utf-8")
    return folder, Path(shutil.copytree(folder, folder.with_name("copy")))


@pytest.fixture
def workshop(example_folders: tuple[Path, Path]) -> Path:
    """Restore this folder to work in; the path stays the same, because recipes contain absolute paths."""
    folder, copy = example_folders
    shutil.rmtree(folder)
    return Path(shutil.copytree(copy, folder))


@pytest.fixture
def run_console() -> Callable[[str, Path], tuple[int, str]]:
    """Run a command line in a folder and return its exit code and its output; heedful's commands run in this process.

    The code of a pipe is that of its last failed command.
    """

    def run(line: str, folder: Path) -> tuple[int, str]:
        words = _split_words(line)
        if words[0] == "heedful" and not _OPERATORS & set(words):
            return _run_here(words[1:], folder)
        shell = f'set -o pipefail\nheedful() {{ "{sys.executable}" -m heedful "$@"; }}\n{line}\n'
        done = subprocess.run(["bash", "-c", shell], cwd=folder, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


def _run_here(arguments: list[str], folder: Path) -> tuple[int, str]:
    bytes_ = io.BytesIO()
    terminal = io.TextIOWrapper(bytes_, encoding="utf-8", write_through=True)
    with change_folder(folder), redirect_stdout(terminal), redirect_stderr(terminal):
        code = main(arguments)
    return code, bytes_.getvalue().decode()


@pytest.fixture
def check_commands(tmp_path: Path) -> Callable[[str], int]:
    """Check the calls of heedful and make in shell lines, and return their number; raise an error for a wrong one."""
    stand_in = tmp_path / "stand-in.toml"
    stand_in.write_text(STAND_IN, encoding="utf-8")

    def check(text: str) -> int:
        lines = text.replace("\\\n", " ").splitlines()
        return sum(_check(command, stand_in) for line in lines for command in _iter_commands(_split_words(line)))

    return check


def _split_words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    return list(lexer)


def _iter_commands(words: list[str]) -> Iterator[list[str]]:
    """Yield the commands of a line, without redirections."""
    command: list[str] = []
    waiting = iter(words)
    for word in waiting:
        if word in ("<", ">", ">>"):
            next(waiting)
        elif word in _OPERATORS:
            yield command
            command = []
        else:
            command.append(word)
    yield command


def _check(words: list[str], stand_in: Path) -> bool:
    """Return whether this is a command of heedful; unknown recipes are assumed to be minimal."""
    if words[:1] == ["make"]:
        targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
        assert {word for word in words[1:] if "=" not in word} <= targets, words
        return True
    if words[:1] == ["torchrun"]:
        words = words[words.index("-m") + 1 :]
    if words[:1] != ["heedful"] or words[1:2] in (["--help"], ["--version"]):
        return words[:1] == ["heedful"]
    others: dict[str, Callable[[], object]] = {
        "study": lambda: get_item(words[2], list_studies(), noun="study"),
        "quickstart": lambda: parse_demonstration(words[2:]),
        "serve": lambda: _check_served(words[2:]),
    }
    if words[1] in others:
        others[words[1]]()
        return True
    arguments_class = load_arguments_class(words[1])
    program = f"heedful {words[1]}"
    if words[1] not in ("train", "describe", "sweep"):
        if "--help" not in words:
            parse_arguments(arguments_class, words[2:], program=program)
        return True
    given, overrides = parse_known_arguments(arguments_class, words[2:], program=program)
    if given.recipe is None:  # `describe` of something other than a recipe
        return True
    has_file = (ROOT / given.recipe).is_file()
    if words[1] == "sweep" and has_file:  # the stand-in may lack keys that a sweep's own recipe has
        swept = [axis.partition("=") for axis in given.over]
        overrides = [*overrides, *(word for key, _, values in swept for word in (f"--{key}", _take_first(values)))]
    load_recipe(ROOT / given.recipe if has_file else stand_in, overrides)
    return True


def _take_first(values: str) -> str:
    """Return the first of the values `a,b`, or the lower end of the interval `a..b:log`."""
    return re.split(r",|\.\.", values)[0]


def _check_served(words: list[str]) -> None:
    """Return the settings of a server's command, without those of its file."""
    command = import_module(COMMANDS["serve"].module)
    _, overrides = parse_known_arguments(
        load_arguments_class("serve"), command.complete_new_key(words), program="heedful serve"
    )
    load_settings(None, overrides, {})
