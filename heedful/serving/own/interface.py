"""The routes of our own interface, and what is served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heedful.serving.house import House, Model
from heedful.serving.languages import called
from heedful.serving.own import inspected, reading, searching, seeing, translating, writing
from heedful.serving.own.answers import Served
from heedful.serving.own.uses import USES, ways_of
from heedful.serving.routes import Asked, Route
from heedful.tasks.classification.face import Classifier
from heedful.tasks.translation.face import Translator


def routes(house: House) -> Iterator[Route]:
    """What is served, and all that the models and indices of a house do."""
    yield Route(
        path="/v1/heedful",
        method="GET",
        answer=_served,
        about="what is served, and within which limits",
        gives=Served,
    )
    for each in (translating, writing, reading, seeing, searching, inspected):
        yield from each.routes(house)


async def _served(asked: Asked) -> Mapping[str, Any]:
    limits = asked.house.settings.limits
    return {
        "models": [_model(model) for model in asked.house.models.values()],
        "indices": list(asked.house.indices),
        "limits": {name: getattr(limits, name) for name in ("characters", "batch", "alternatives", "tokens", "file")},
    }


def _model(model: Model[Any]) -> dict[str, Any]:
    face = model.face
    content: dict[str, Any] = {
        "name": model.name,
        "does": [use for use, (kinds, _) in USES.items() if isinstance(face, kinds)],
    }
    if isinstance(face, Translator):
        ways = ways_of(model)
        known = dict.fromkeys(language for way in ways for language in way if language is not None)
        content |= {"ways": [list(way) for way in ways], "languages": {each: called(each) for each in known}}
    if isinstance(face, Classifier):
        content["takes"] = "candidates" if face.answered == "choice" else "pair" if face.paired else "text"
    return content
