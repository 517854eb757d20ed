"""What pages name between backquotes, and in lines for the shell, is there under that name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.named import DOTTED, FILE, NAME, ROOT, is_command, is_key, is_name, is_option

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS: dict[str, set[str]] = {
    "adapters": {"model.safetensors"},
    "foreign": {"heedful.factor-NAME.json", "heedful.json", "heedful.vocabulary", "heedful.source", "heedful.target"},
    "inspection": {"heedful.record"},
    "localisation": {"--force"},
    "performance": {"--bertviz", "--libraries"},
    "path-teach": {"--quick"},
    "studies": {"--quick"},
    "translation": {"--ter-case-sensitive", "model.safetensors"},
}
"""What only looks like it: rooms, files that are saved, and options of scripts."""
BUILT = "docs/_build/"
"""What `make docs` makes, which a fresh clone has not."""


def wrong(text: str) -> Iterator[str]:
    """What a page names that is not there; blocks with what a program answers may show mistakes on purpose."""
    for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        yield from (line for line in _commands(block.replace("\\\n", " ")) if not is_command(line))
    for code in re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)):
        if code.startswith("heedful "):
            found = all(map(is_command, _commands(code)))
        elif code.startswith("--"):
            found = all(map(is_option, re.findall(r"--[a-z][\w.-]*", code)))
        elif file := FILE.match(code):
            found = (ROOT / file[0]).exists() or file[0].startswith(BUILT)
        elif name := NAME.match(code):
            found = is_name(name[0])
        else:
            found = not DOTTED.fullmatch(code) or is_key(code)
        if not found:
            yield code


def _commands(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from (part.strip() for part in re.split(r"[|;<>]", line) if part.strip().startswith("heedful "))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_what_a_page_names_is_there(path: Path) -> None:
    found = set(wrong(path.read_text(encoding="utf-8")))
    assert found == OTHERS.get(path.stem, set())


def test_no_page_has_the_name_of_one_that_sphinx_makes() -> None:
    assert not {path.stem for path in PAGES} & {"search", "genindex", "modindex", "py-modindex"}


@pytest.mark.parametrize(
    "text",
    [
        "`heedful trian`",
        "`heedful inspect RUN --html page.html`",
        "`--htlm`",
        "`recipes/none.toml`",
        "`heedful.attention.scores.Dott`",
        "`model.agregation`",
        "```sh\nheedful translate runs/x --beams 5\n```",
        "1. so\n\n   ```sh\n   heedful tarin x.toml\n   ```",
    ],
)
def test_what_is_not_there_is_noticed(text: str) -> None:
    assert len(list(wrong(text))) == 1
