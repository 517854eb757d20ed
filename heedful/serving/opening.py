"""From settings to a house: models are loaded, and known by their languages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from heedful.serving.house import House, Model, index_name
from heedful.serving.languages import languages_of
from heedful.serving.settings import ModelSettings, Settings
from heedful.tasks.heads import Heads

if TYPE_CHECKING:
    from heedful.serving.waiting import Answering


def open_house(settings: Settings, say: Callable[[str], None] = lambda _: None) -> House:
    """All that the settings name, loaded; the house is ready then.

    Raises:
        RecipeError: something cannot be computed where it is to be.
        RunError: a folder is missing or damaged.
    """
    house = House(settings, {}, {})
    furnish(house, say)
    house.state = "ready"
    return house


def furnish(house: House, say: Callable[[str], None], answering: Callable[[str], Answering] | None = None) -> None:
    """Loads what the settings of a house name into it; see `open_house`.

    Args:
        house: that gets them.
        say: told what is taken for granted.
        answering: what computes a model of this name; a thread of this process unless given.
    """
    settings, answering = house.settings, answering or partial(_gathering, house)
    if settings.threads is not None:
        import torch

        torch.set_num_threads(settings.threads)
    for name, each in settings.models.items():
        for own, face in _faces(name, each, settings, say):
            spoken = languages_of(face, each, name=own, say=say)
            house.models[own] = Model(own, face, settings, spoken=spoken, answering=answering(own))
    if settings.indices:
        from heedful.retrieval.index import load_index

        for name, index in settings.indices.items():
            found = load_index(index.folder, device=settings.device, say=say)
            house.indices[name] = Model(name, found, settings, answering=answering(index_name(name)))


def _gathering(house: House, name: str) -> Answering:
    from heedful.serving.gathering import Gathering  # which reads torch

    worked, wrote = partial(house.meters.batch, name), partial(house.meters.tokens, name)
    return Gathering(rows=house.settings.limits.rows, worked=worked, wrote=wrote)


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
