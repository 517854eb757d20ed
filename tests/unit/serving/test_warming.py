"""Every kind of model is asked once before anybody else asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from blocking_server import BlockingPredictor, build_registry
from live_server import open_registry
from task_runs import create_task_runs

from heedful.errors import DataError, RecipeError
from heedful.serving import load_models
from heedful.serving.load_models import warm_up_models
from heedful.serving.registry import LoadedModel


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads of the server call what is checked where it has its units."""


def test_every_kind_that_can_be_asked_is_warmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = open_registry(create_task_runs(tmp_path))
    said: list[str] = []
    answered: list[str] = []
    ask = LoadedModel.run

    async def counted(self: LoadedModel[Any], *given: Any) -> Any:
        found = await ask(self, *given)
        assert len(found) if isinstance(found, list) else found is not None
        answered.append(self.name)
        return found

    monkeypatch.setattr(LoadedModel, "run", counted)
    warm_up_models(registry, said.append)
    assert answered == list(registry.models)
    assert said == []
    for model in registry.models.values():
        model.close()


def test_who_cannot_answer_the_first_request_may_answer_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses() -> None:
        raise DataError("sentence 1: has no labels")

    monkeypatch.setattr(load_models, "_build_warm_up", lambda *_: refuses)
    said: list[str] = []
    warm_up_models(build_registry(BlockingPredictor()), said.append)
    assert said == ["held: could not be warmed up, so its first request will take longer (sentence 1: has no labels)"]


def test_what_nobody_can_ask_is_refused() -> None:
    with pytest.raises(RecipeError, match="held: is a BlockingPredictor, which cannot be used over HTTP; leave it out"):
        warm_up_models(build_registry(BlockingPredictor()), print)
