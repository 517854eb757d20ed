"""The routes of our own interface, and what is served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from heedful.serving.house import House, Model
from heedful.serving.own import glimpsing, hearing, inspected, reading, searching, seeing, translating, writing
from heedful.serving.own.answers import Served
from heedful.serving.routes import Asked, Route
from heedful.serving.uses import uses_of


def routes(house: House) -> Iterator[Route]:
    """What is served, and all that the models and indices of a house do."""
    yield Route(
        path="/v1/heedful",
        method="GET",
        answer=_served,
        about="what is served, and within which limits",
        gives=Served,
    )
    for each in (translating, writing, reading, seeing, glimpsing, hearing, searching, inspected):
        yield from each.routes(house)


async def _served(asked: Asked) -> Mapping[str, Any]:
    limits = asked.house.settings.limits
    return {
        "models": [_model(model) for model in asked.house.models.values()],
        "indices": list(asked.house.indices),
        "orders": {name: list(searching.orders_of(index.face)) for name, index in asked.house.indices.items()},
        "limits": {name: getattr(limits, name) for name in ("characters", "batch", "alternatives", "tokens", "file")},
    }


def _model(model: Model[Any]) -> dict[str, Any]:
    does = uses_of(model.face)
    facts = (use.facts(model) for use in does if use.facts is not None)
    names = [*(use.name for use in does), *(["inspect"] if inspected.is_seen(model.face) else [])]
    return {"name": model.name, "does": names, **dict(chain.from_iterable(each.items() for each in facts))}
