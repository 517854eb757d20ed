"""From settings to a house: models are loaded, warmed up, and known by their languages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heedful.serving.house import House, Model
from heedful.serving.languages import languages_of
from heedful.serving.settings import ModelSettings, Settings
from heedful.tasks.heads import Heads


def open_house(settings: Settings, say: Callable[[str], None] = lambda _: None) -> House:
    """All models of the settings, loaded and warmed up; the house is ready then.

    Raises:
        RecipeError: nothing is to be served, or something cannot be computed where it is to be.
        RunError: a folder is missing or damaged.
    """
    models: dict[str, Model[Any]] = {}
    for name, each in settings.models.items():
        for own, face in _faces(name, each, settings, say):
            models[own] = Model(own, face, settings, spoken=languages_of(face, each, name=own, say=say))
    house = House(settings, models, _indices(settings))
    house.state = "ready"
    return house


def _faces(name: str, given: ModelSettings, settings: Settings, say: Callable[[str], None]) -> list[tuple[str, Any]]:
    from heedful.runs.load import load

    face = load(
        given.run,
        device=settings.device,
        engine=given.engine,
        adapter=given.adapter,
        say=say,
    )
    if not isinstance(face, Heads):
        return [(name, face)]
    if given.task is not None:
        return [(name, face.head(given.task))]
    return [(f"{name}/{each}", face.head(each)) for each in face.names]


def _indices(settings: Settings) -> dict[str, Any]:
    return {}
