"""Whatever a recipe can train is served: no face is refused when a server opens."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from serving import opened

from heedful.catalogue import tasks
from heedful.serving.house import House
from heedful.serving.uses import uses_of
from heedful.serving.warming import warm
from heedful.tasks.embedder import Embedder

GOLDEN = Path(__file__).parents[2] / "golden"
ADDED = "heedful."
"""How the modules of tasks begin that are ours."""


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads of the server call what is checked where it has its units."""


def trained() -> Mapping[str, str]:
    """The task of each run that is kept."""
    recipes = GOLDEN.glob("*/recipe.toml")
    return {
        path.parent.name: tomllib.loads(path.read_text(encoding="utf-8")).get("task", "translation") for path in recipes
    }


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    found = opened({name: GOLDEN / name / "run" for name in sorted(trained())})
    yield found
    for model in found.models.values():
        model.close()


def test_there_is_a_run_of_every_task() -> None:
    assert set(trained().values()) == {task for task, place in tasks().items() if place.startswith(ADDED)}


def test_every_run_is_asked_before_anybody_asks(house: House) -> None:
    said: list[str] = []
    warm(house, said.append)
    assert said == []


def test_every_face_can_be_asked_and_looked_at(house: House) -> None:
    for name, model in house.models.items():
        does = uses_of(model.face)
        assert any(use.first is not None for use in does), name
        assert any(use.look is not None for use in does), name


def test_every_kind_of_face_does_something_of_its_own(house: House) -> None:
    """That it makes vectors of texts is no reason to serve what can do more."""
    for name, model in house.models.items():
        does = {use.name for use in uses_of(model.face)}
        assert (does == {"embed"}) == isinstance(model.face, Embedder), name
