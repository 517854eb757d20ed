"""Whatever a recipe can train is served: no face is refused when a server opens."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from serving import opened

from heedful.catalogue import tasks
from heedful.errors import DataError
from heedful.serving.house import House
from heedful.serving.uses import uses_of
from heedful.serving.warming import warm
from heedful.tasks.embedder import Embedder
from heedful.tasks.finding import Questions, in_company

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


class Overhearing:
    """Company that answers by itself, and keeps by what it was asked to."""

    def __init__(self) -> None:
        self.says = list[Any]()

    def answers(self, questions: Questions[Any, Any]) -> list[Any]:
        self.says.append(questions.say)
        with torch.inference_mode():
            return list(questions.say(list(questions.examples)))

    def grown(self, finder: Any, example: Any) -> Iterator[Any]:
        yield self.answers(Questions([example], finder, len, 1, 1))[0][0]


def test_what_two_ask_alike_may_be_answered_together(house: House) -> None:
    """A function that is made anew for each call is equal to no other, and its callers wait for each other."""
    for name, model in house.models.items():
        for use in uses_of(model.face):
            if use.first is None:
                continue
            one, other = Overhearing(), Overhearing()
            for each in (one, other):
                with in_company(each), suppress(DataError):  # of a vector of one text, where two are read together
                    use.first(model.face)
            assert one.says == other.says, f"{name}: {use.name}"
            assert one.says or use.name == "embed", f"{name}: {use.name}"
