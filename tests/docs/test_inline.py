"""Names between backquotes and commands for the shell on pages exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.named import DOTTED, FILE, NAME, ROOT, is_command, is_key, is_name, is_option

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS: dict[str, set[str]] = {
    "adapters": {"model.safetensors"},
    "foreign": {
        "heedful.int8.safetensors",
        *("heedful.factor-NAME.json", "heedful.json", "heedful.vocabulary", "heedful.source", "heedful.target"),
        *("tokenizer.json", "tokenizer.model"),
    },
    "inspection": {"heedful.record"},
    "localisation": {"--force"},
    "monitoring": {
        *("heedful.model", "heedful.run_id", "heedful.request_id", "heedful.examples", "heedful.steps"),
        "heedful.batch.texts",
    },
    "performance": {"--bertviz", "--libraries"},
    "path-teach": {"--quick"},
    "studies": {"--quick"},
    "trust": {"--table"},
    "translation": {"--max-restarts", "--nnodes 1:2", "--ter-case-sensitive", "model.safetensors", "tokenizer.json"},
}
"""Words that only look like names: rooms, saved files and options of scripts."""
BUILT = "docs/_build/"
"""Files that `make docs` generates, which a fresh clone does not have."""


def find_wrong_names(text: str) -> Iterator[str]:
    """Yield names on a page that do not exist; blocks with outputs of a program may contain mistakes on purpose."""
    for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        yield from (line for line in _iter_commands(block.replace("\\\n", " ")) if not is_command(line))
    for code in re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)):
        if code.startswith("heedful "):
            found = all(map(is_command, _iter_commands(code)))
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


def _iter_commands(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from (part.strip() for part in re.split(r"[|;<>]", line) if part.strip().startswith("heedful "))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_names_on_a_page_exist(path: Path) -> None:
    found = set(find_wrong_names(path.read_text(encoding="utf-8")))
    assert found == OTHERS.get(path.stem, set())


def test_no_page_has_the_name_of_a_page_of_sphinx() -> None:
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
def test_missing_names_are_found(text: str) -> None:
    assert len(list(find_wrong_names(text))) == 1
