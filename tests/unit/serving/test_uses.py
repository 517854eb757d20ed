"""Whatever a recipe can train is served: no face is refused when a server opens."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from live_server import open_registry

from heedful.errors import DataError
from heedful.registry import list_tasks
from heedful.serving.capabilities import list_capabilities
from heedful.serving.load_models import warm_up_models
from heedful.serving.registry import ModelRegistry
from heedful.tasks.batch_executor import BatchJob, use_executor
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
def registry() -> Iterator[ModelRegistry]:
    found = open_registry({name: GOLDEN / name / "run" for name in sorted(trained())})
    yield found
    for model in found.models.values():
        model.close()


def test_there_is_a_run_of_every_task() -> None:
    assert set(trained().values()) == {task for task, place in list_tasks().items() if place.startswith(ADDED)}


def test_every_run_is_asked_before_anybody_asks(registry: ModelRegistry) -> None:
    said: list[str] = []
    warm_up_models(registry, said.append)
    assert said == []


def test_every_face_can_be_asked_and_looked_at(registry: ModelRegistry) -> None:
    for name, model in registry.models.items():
        does = list_capabilities(model.predictor)
        assert any(use.warm_up is not None for use in does), name
        assert any(use.inspect is not None for use in does), name


def test_every_kind_of_face_does_something_of_its_own(registry: ModelRegistry) -> None:
    """That it computes vectors of texts is no reason to serve what can do more."""
    for name, model in registry.models.items():
        does = {use.name for use in list_capabilities(model.predictor)}
        assert (does == {"embed"}) == isinstance(model.predictor, Embedder), name


class Overhearing:
    """Company that answers by itself, and keeps by what it was asked to."""

    def __init__(self) -> None:
        self.says = list[Any]()

    def run_job(self, job: BatchJob[Any, Any]) -> list[Any]:
        self.says.append(job.answer_batch)
        with torch.inference_mode():
            return list(job.answer_batch(list(job.examples)))

    def stream_example(self, search_call: Any, example: Any) -> Iterator[Any]:
        yield self.run_job(BatchJob([example], search_call, len, 1, 1))[0][0]


def test_what_two_ask_alike_may_be_answered_together(registry: ModelRegistry) -> None:
    """A function that is made anew for each call is equal to no other, and its callers wait for each other."""
    for name, model in registry.models.items():
        for use in list_capabilities(model.predictor):
            if use.warm_up is None:
                continue
            one, other = Overhearing(), Overhearing()
            for each in (one, other):
                with use_executor(each), suppress(DataError):  # of a vector of one text, where two are read together
                    use.warm_up(model.predictor)
            assert one.says == other.says, f"{name}: {use.name}"
            assert one.says or use.name == "embed", f"{name}: {use.name}"
