"""All routes of the own interface, and the description of the server."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import Field

from heedful.serving.api import inspection, search
from heedful.serving.capabilities import list_capabilities
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import RequestContext, declare_route
from heedful.tasks.records import AnswerRecord


class ServedModelInfo(AnswerRecord):
    """A served model, and what can be requested of it."""

    name: str
    does: list[str]
    """paths behind /v1/heedful/ that the model supports"""
    ways: list[Annotated[list[str | None], Field(min_length=2, max_length=2)]] = []
    """pairs of source and target languages, as far as they are known"""
    languages: dict[str, str] = {}
    """names of these languages"""
    takes: Literal["text", "pair", "candidates", "picture", "clip", "sound"] = "text"
    """kind of input"""


class ServerInfo(AnswerRecord):
    """The served models and indices, and the server's limits."""

    models: list[ServedModelInfo]
    indices: list[str]
    orders: dict[str, list[str]] = {}
    """orderings of passages that each index supports"""
    limits: dict[str, int]


@declare_route("/v1/heedful", "the served models and indices, and the limits", method="GET", response_type=ServerInfo)
async def _answer_info(context: RequestContext) -> Mapping[str, Any]:
    """Describe the served models and indices, the orderings of each index, and the limits of requests."""
    limits = context.limits
    return {
        "models": [_describe_model(model) for model in context.registry.models.values()],
        "indices": list(context.registry.indices),
        "orders": {
            name: list(search.available_orderings(index.predictor)) for name, index in context.registry.indices.items()
        },
        "limits": {name: getattr(limits, name) for name in ("characters", "batch", "alternatives", "tokens", "file")},
    }


def _describe_model(model: LoadedModel[Any]) -> dict[str, Any]:
    """Describe a served model: its name, what it can do, and facts about it."""
    capabilities = list_capabilities(model.predictor)
    facts = (capability.describe(model) for capability in capabilities if capability.describe is not None)
    capability_names = [
        *(capability.name for capability in capabilities),
        *(["inspect"] if inspection.can_inspect(model.predictor) else []),
    ]
    return {"name": model.name, "does": capability_names, **dict(chain.from_iterable(fact.items() for fact in facts))}
