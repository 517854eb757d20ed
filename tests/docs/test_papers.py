"""In docs/papers.md, the names in its rows exist, and each paper that the code cites has a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
from docs.named import FILE, KEY, ROOT, is_command, is_key, is_name

from heedful.inspection.figures import VIEWS
from heedful.registry import list_tasks

PAGE = (ROOT / "docs/papers.md").read_text(encoding="utf-8")
CODE = re.findall(r"`([^`]+)`", PAGE.partition("## Errata")[0])

_WORD = r"(?:van den |van |de )?[A-Z][\w'-]+"
CITATION = re.compile(rf"({_WORD})((?: et al\.)?|(?:,| and| &) {_WORD}),? \(?((?:19|20)\d\d)\b")
NO_PAPERS = {
    ("Schema", "2020"),
    ("Microsoft", "1991"),
    ("PNG", "2003"),
    ("März", "1994"),
    ("March", "1994"),
    ("August", "1992"),
}
"""Formats and dates that look like citations."""


@pytest.fixture(scope="module")
def names(script: Callable[[str], ModuleType]) -> set[str]:
    """Return the full names of all public names of the package."""
    return {f"{module.full}.{member.name}" for module in script("api_pages").modules().values()
            for member in module.members}  # fmt: skip


def is_known(code: str, names: set[str]) -> bool:
    """Return whether code on the page names something that exists."""
    if code.startswith("heedful "):
        return is_command(code)
    if FILE.match(code):
        return (ROOT / code).exists()
    if code.startswith("heedful."):
        return is_name(code)
    if key := KEY.fullmatch(code):
        return (key[1] == "task" and key[2] in list_tasks()) or is_key(key[1], key[2])
    word = code.partition("(")[0].strip('"')
    return is_key(word) or word in VIEWS or word in list_tasks() or any(name.endswith(f".{word}") for name in names)


def find_citations(text: str) -> Iterator[tuple[str, str]]:
    """Yield the first author before each year, and the year."""
    for found in CITATION.finditer(re.sub(r"\s+", " ", text)):
        yield found[1], found[3]


def has_row(page: str, author: str, year: str) -> bool:
    return re.search(rf"{re.escape(author)}\b[^|;]*\b{year}", page) is not None


@pytest.mark.parametrize("code", sorted(set(CODE)))
def test_the_names_in_a_row_exist(code: str, names: set[str]) -> None:
    assert is_known(code, names)


@pytest.mark.parametrize(
    "code",
    [
        "heedful.attention.scores.Dott",
        "heedful.nowhere",
        "heedful inspect --html",
        "heedful trian",
        "recipes/road/luongs.toml",
        "model.agregation",
        'model.aggregation = "sum"',
        'task = "parsing"',
        "Dotted",
    ],
)
def test_missing_names_are_found(code: str, names: set[str]) -> None:
    assert not is_known(code, names)


def test_each_paper_that_the_code_cites_has_a_row() -> None:
    cited = {
        citation: path.name
        for path in sorted((ROOT / "heedful").rglob("*.py"))
        for citation in find_citations(path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 100
    missing = {citation: file for citation, file in cited.items() if not has_row(PAGE, *citation)}
    assert {citation: file for citation, file in missing.items() if citation not in NO_PAPERS} == {}


def test_a_missing_paper_is_found() -> None:
    text = "as in Nobody et al. 1999, eq. 1, and (Some and Other\n    2001)"
    assert list(find_citations(text)) == [("Nobody", "1999"), ("Some", "2001")]
    assert not has_row(PAGE, "Nobody", "1999")
    assert has_row("| Some and Other 2001 |", "Some", "2001")


def test_no_row_occurs_twice() -> None:
    rows = [line.split(" | ")[0] + line.split(" | ")[1] for line in PAGE.splitlines() if line.startswith("| D")]
    assert len(rows) == len(set(rows))
