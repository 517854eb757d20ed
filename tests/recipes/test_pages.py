"""README.md and docs/*.md do what they say.

- ```python blocks run, one after the other, beside the trained model of examples/train_in_python.py; a following
  ```output block is what they print.
- ```console blocks run, line by line; what is behind a line is what it prints. `...` stands for anything, and any
  decimal fraction for any other.
- ```sh blocks are not run, but their heedful commands and make targets exist, with their options.
- ```toml blocks are recipes.
- Links lead somewhere.
"""

from __future__ import annotations

import io
import re
import runpy
import unittest
from collections.abc import Callable
from contextlib import redirect_stdout
from doctest import ELLIPSIS, REPORT_NDIFF, Example, OutputChecker
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from sybil import Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser, SkipParser

from heedful import RecipeError
from heedful.recipes.load import load_recipe

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"python", "output", "console", "sh", "toml", "text", "{toctree}"}

page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)


def check_output(got: str, wanted: str) -> str | None:
    """What differs; any decimal fraction is as good as any other, because rounding depends on the processor."""
    checker = OutputChecker()
    got, wanted = (re.sub(r" +", " ", re.sub(r"\d+(\.\d+)+", "#", text.rstrip() + "\n")) for text in (got, wanted))
    if checker.check_output(wanted, got, ELLIPSIS):
        return None
    return checker.output_difference(Example("", wanted), got, ELLIPSIS | REPORT_NDIFF)


def run_python(example: Any) -> str | None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        failure = PythonEvaluator()(example)
    example.namespace["_printed"] = printed.getvalue()
    return failure


def sessions(text: str) -> list[tuple[str, str]]:
    """Each line behind `$ ` and what should follow."""
    first, *parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not first, "a console block begins with $"
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


@page
def test_blocks(
    path: Path,
    workshop: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_console: Callable[[str, Path], str],
    check_commands: Callable[[str], int],
) -> None:
    def console(example: Any) -> str | None:
        for command, wanted in sessions(example.parsed):
            if failure := check_output(run_console(command, workshop), wanted):
                return f"$ {command}\n{failure}"
        return None

    def recipe(example: Any) -> None:
        (workshop / "page.toml").write_text(example.parsed, encoding="utf-8")
        load_recipe(workshop / "page.toml")

    def output(example: Any) -> str | None:
        return check_output(example.namespace.pop("_printed"), example.parsed)

    monkeypatch.chdir(workshop)
    parsers = [
        CodeBlockParser("python", run_python),
        CodeBlockParser("output", output),
        CodeBlockParser("console", console),
        CodeBlockParser("sh", lambda example: check_commands(example.parsed) and None),
        CodeBlockParser("toml", recipe),
        SkipParser(),
    ]
    document = Sybil(parsers=parsers).parse(path)
    document.namespace["find_spec"] = find_spec
    for example in document.examples():
        try:
            example.evaluate()
        except unittest.SkipTest:
            continue


@page
def test_no_block_escapes_the_tests(path: Path) -> None:
    opened = re.findall(r"^```(\S*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(opened[::2]) <= LANGUAGES
    assert set(opened[1::2]) <= {""}


@page
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        file, _, heading = target.partition("#")
        if "://" in file:
            continue
        linked = (path.parent / file) if file else path
        assert linked.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}, target


def test_the_list_of_keys_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "docs/recipe_reference.py"))
    assert (ROOT / "docs/recipe.md").read_text(encoding="utf-8") == made["page"](), "run docs/recipe_reference.py"


def test_wrong_output_is_noticed() -> None:
    assert check_output("a\n  b c\n", "a\n  ... c\n") is None
    assert check_output("a 1.25\n", "a   20.5\n") is None
    assert check_output("a\nb\n", "a\nc\n") is not None
    assert check_output("a 1\n", "a 2\n") is not None


@pytest.mark.parametrize("line", ["heedful train r.toml --training.stesp 3", "heedful translat", "make quikstart"])
def test_wrong_commands_are_noticed(line: str, check_commands: Callable[[str], int]) -> None:
    with pytest.raises((RecipeError, KeyError, AssertionError)):
        check_commands(line)
