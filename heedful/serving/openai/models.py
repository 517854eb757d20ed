"""`/v1/models` of OpenAI's interface: list the served models."""

from __future__ import annotations

from typing import Any, Final, Literal

from heedful.serving.openai.generation import OpenAIMessage
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import HandlerResult, RequestContext, declare_route

GROUP: Final = "OpenAI"


class ModelCard(OpenAIMessage):
    """Description of a served model."""

    id: str
    """name under which the model is served"""
    object: Literal["model"]
    created: int
    """when it was loaded, in seconds since 1970"""
    owned_by: str


class ModelList(OpenAIMessage):
    """List of all served models."""

    object: Literal["list"]
    data: list[ModelCard]


@declare_route("/v1/models", "models that are served", method="GET", response_type=ModelList, group=GROUP)
async def _list_models(context: RequestContext) -> HandlerResult:
    cards = [_build_card(model) for model in context.registry.models.values()]
    return ModelList(object="list", data=cards)


@declare_route("/v1/models/{name:path}", "one of them", method="GET", response_type=ModelCard, group=GROUP)
async def _describe_model(context: RequestContext) -> HandlerResult:
    return _build_card(context.registry.get_model(object, context.request.path_params["name"], action="answer"))


def _build_card(model: LoadedModel[Any]) -> ModelCard:
    return ModelCard(id=model.name, object="model", created=model.created, owned_by="heedful")
