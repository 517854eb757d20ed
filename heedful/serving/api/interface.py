"""All routes of the own interface, and the description of the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from heedful.serving.api import captioning, encoders, generation, glimpses, inspection, search, speech, translation
from heedful.serving.api.responses import ServerInfo
from heedful.serving.capabilities import list_capabilities
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.routes import RequestContext, Route


def iter_routes(registry: ModelRegistry) -> Iterator[Route]:
    """Yield the route that describes the server, and those that its models and indices support."""
    yield Route(
        path="/v1/heedful",
        method="GET",
        handler=_answer_info,
        summary="the served models and indices, and the limits",
        response_type=ServerInfo,
    )
    for module in (translation, generation, encoders, captioning, glimpses, speech, search, inspection):
        yield from module.iter_routes(registry)


async def _answer_info(context: RequestContext) -> Mapping[str, Any]:
    """Describe the served models and indices and the server's limits."""
    limits = context.registry.settings.limits
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
