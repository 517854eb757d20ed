"""Each recipe has a page, and the numbers on it are also on the page of their source."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from heedful.bundled import list_recipes

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = r"\d[\d,]*(?:\.\d+)?"


@pytest.fixture(scope="module")
def table() -> Mapping[str, Any]:
    return tomllib.loads((DOCS / "recipe_facts.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pages(script: Callable[[str], ModuleType], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("recipes")
    return folder, script("recipe_pages").write(folder)


def find_invented_numbers(said: str, source: str) -> list[str]:
    """Find numbers of a sentence that its source does not have; small numbers may be words there."""
    known = {number.replace(",", "") for number in re.findall(NUMBER, source)}
    return [number for number in re.findall(NUMBER, said) if number.replace(",", "") not in known]


def iter_claims(table: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each recipe, a fact about it, and the page of its source."""
    for name, facts in table["recipes"].items():
        for each in facts.get("measured", []):
            yield name, " ".join(each.get(key, "") for key in ("score", "time", "on")), facts["source"]


def test_each_fact_has_its_recipe_and_each_recipe_its_facts(table: Mapping[str, Any]) -> None:
    assert set(table["recipes"]) == set(list_recipes())
    assert {facts["data"] for facts in table["recipes"].values()} == set(table["data"])


def test_each_recipe_has_a_page(pages: tuple[Path, str]) -> None:
    folder, listed = pages
    assert {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md")} == set(list_recipes())
    for name, item in list_recipes().items():
        text = (folder / f"{name}.md").read_text(encoding="utf-8")
        assert f"```toml\n{item.path.read_text(encoding='utf-8')}```" in text
        assert f"](recipes/{name}.md)" in listed


def test_a_recipe_without_measurements_says_so(table: Mapping[str, Any], pages: tuple[Path, str]) -> None:
    folder, listed = pages
    for name, facts in table["recipes"].items():
        text = (folder / f"{name}.md").read_text(encoding="utf-8")
        assert ("Score and time: not measured." in text) == ("measured" not in facts), name
    assert listed.count("| not measured | not measured |") == sum(
        "measured" not in f for f in table["recipes"].values()
    )


def test_no_number_is_invented(table: Mapping[str, Any]) -> None:
    found = list(iter_claims(table))
    assert len(found) > 30
    for name, said, source in found:
        assert not find_invented_numbers(said, (DOCS / source.partition("#")[0]).read_text(encoding="utf-8")), name
    assert find_invented_numbers("39.9 BLEU after 4,314 updates", "38.5 BLEU after 4,314 updates") == ["39.9"]


def test_sources_are_headings(table: Mapping[str, Any]) -> None:
    for name, facts in table["recipes"].items():
        if "source" in facts:
            file, _, anchor = facts["source"].partition("#")
            headings = re.findall(r"^#+ (.+)$", (DOCS / file).read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}, name


def test_each_task_has_its_guide(script: Callable[[str], ModuleType]) -> None:
    from heedful.registry import list_tasks

    guides = script("recipe_pages").GUIDES
    assert set(guides) == set(list_tasks())
    assert all((DOCS / page).is_file() for page in guides.values())
