"""The blocks of README.md and docs/*.md work.

- ```python blocks run, one after the other, beside the trained model of examples/train_in_python.py. Their output
  must equal a following ```output block.
- ```console blocks run line by line. The lines after a command are its output, and a command may only fail if an error
  is shown. `...` stands for any text, and decimal fractions need only be close.
- ```sh blocks are not run, but their heedful commands and make targets exist, with their options.
- ```toml blocks are recipes.
- Links lead to existing places.
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

FRACTION = r"-?\d+(?:\.\d+)+"
page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)


def check_output(got: str, wanted: str) -> str | None:
    """Describe the difference; decimal fractions need only be close, because rounding and training depend on the
    processor.
    """
    got, wanted = (re.sub(r" +", " ", text.rstrip() + "\n") for text in (got, wanted))
    parts = re.split(rf"({FRACTION}|\.\.\.)", wanted)
    pattern = "".join(
        ".*?" if part == "..." else f"({FRACTION})" if place % 2 else re.escape(part)
        for place, part in enumerate(parts)
    )
    found = re.fullmatch(pattern, got, re.DOTALL)
    if found is None:
        return OutputChecker().output_difference(Example("", wanted), got, ELLIPSIS | REPORT_NDIFF)
    shown = [(part, parts[place + 1]) for place, part in enumerate(parts) if place % 2 and part != "..."]
    largest = max((abs(float(number)) for number, _ in shown if number.count(".") == 1), default=0.0)
    for mine, (number, behind) in zip(found.groups(), shown, strict=True):
        if not re.match(r" (s|min)\b", behind) and not is_near(mine, number, largest=largest):
            return f"{mine} is not near {number} in\n{wanted}"
    return None


def is_near(got: str, wanted: str, *, largest: float) -> bool:
    """Numbers may differ by a twentieth of themselves or a hundredth of the largest number beside them; times, which
    have one decimal place, by 0.3; versions may differ.
    """
    if wanted.count(".") > 1:
        return True
    slack = 0.3 if re.search(r"\.\d$", wanted) else 0.0
    return abs(float(got) - float(wanted)) <= max(0.05 * abs(float(wanted)), 0.01 * largest, slack)


def is_error(output: str) -> bool:
    """Return whether a page shows an error."""
    return re.search(r"^heedful: ", output, re.MULTILINE) is not None


def run_python(example: Any) -> str | None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        failure = PythonEvaluator()(example)
    example.namespace["_printed"] = printed.getvalue()
    return failure


def split_session(text: str) -> list[tuple[str, str]]:
    """Return each command after `$ ` with its expected output."""
    first, *parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not first, "a console block begins with $"
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


@page
def test_blocks(
    path: Path,
    workshop: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_console: Callable[[str, Path], tuple[int, str]],
    check_commands: Callable[[str], int],
) -> None:
    def check_console(example: Any) -> str | None:
        for command, wanted in split_session(example.parsed):
            code, printed = run_console(command, workshop)
            if failure := check_output(printed, wanted):
                return f"$ {command}\n{failure}"
            if code != (2 if is_error(wanted) else 0):
                return f"$ {command}\nended with exit code {code}"
        return None

    def check_recipe(example: Any) -> None:
        (workshop / "page.toml").write_text(example.parsed, encoding="utf-8")
        load_recipe(workshop / "page.toml")

    def check_printed(example: Any) -> str | None:
        return check_output(example.namespace.pop("_printed"), example.parsed)

    monkeypatch.chdir(workshop)
    parsers = [
        CodeBlockParser("python", run_python),
        CodeBlockParser("output", check_printed),
        CodeBlockParser("console", check_console),
        CodeBlockParser("sh", lambda example: check_commands(example.parsed) and None),
        CodeBlockParser("toml", check_recipe),
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
def test_all_kinds_of_blocks_are_tested(path: Path) -> None:
    opened = re.findall(r"^```(\S*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(opened[::2]) <= LANGUAGES
    assert set(opened[1::2]) <= {""}


@page
def test_links_lead_to_existing_places(path: Path) -> None:
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


def test_wrong_output_is_found() -> None:
    assert check_output("a\n  b c\n", "a\n  ... c\n") is None
    assert check_output("a 1.25\n", "a   1.27\n") is None
    assert check_output("a 1.25, version:2.7\n", "a 20.5, version:2.6\n") is not None
    assert check_output("a 0.00 100.00\n", "a 0.48 99.37\n") is None, "close, relative to large numbers"
    assert check_output("a 0.00 1.00\n", "a 0.48 0.99\n") is not None
    assert check_output("step 1 9.1 min loss -1.437\n", "step 1 0.0 min loss -1.420\n") is None
    assert check_output("step 1 9.1 min loss 1.437\n", "step 1 0.0 min loss -1.420\n") is not None
    assert check_output("0.5 and 7.5\n", "...0.5...\n") is None
    assert check_output("version:2.7.0 a\n", "version:2.6.1 a\n") is None
    assert check_output("a\nb\n", "a\nc\n") is not None
    assert check_output("a 1\n", "a 2\n") is not None


def test_exit_codes_are_checked(run_console: Callable[[str, Path], tuple[int, str]], tmp_path: Path) -> None:
    assert run_console("heedful --version", tmp_path)[0] == 0
    code, printed = run_console("heedful translate nowhere --text a", tmp_path)
    assert (code, is_error(printed)) == (2, True)
    assert run_console("false | cat", tmp_path) == (1, "")
    assert not is_error("3 passages\nwritten: passages\n")


@pytest.mark.parametrize("line", ["heedful train r.toml --training.stesp 3", "heedful translat", "make quikstart"])
def test_wrong_commands_are_found(line: str, check_commands: Callable[[str], int]) -> None:
    with pytest.raises((RecipeError, KeyError, AssertionError)):
        check_commands(line)
