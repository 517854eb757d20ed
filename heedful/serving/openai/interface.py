"""Routes of OpenAI's interface under `/v1`: models, completions, chat, embeddings and transcriptions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from heedful.serving.capabilities import has_capable_model
from heedful.serving.openai.audio import (
    TranscriptionRequest,
    TranscriptionResponse,
    answer_transcription,
    read_transcription_form,
)
from heedful.serving.openai.chat import ChatCompletion, ChatCompletionRequest, answer_chat
from heedful.serving.openai.completion import CompletionRequest, CompletionResponse, answer_completion
from heedful.serving.openai.embeddings import EmbeddingRequest, EmbeddingResponse, answer_embedding
from heedful.serving.openai.generation import OpenAIMessage
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.routes import HandlerResult, RequestContext, Route
from heedful.tasks.conversation.predictor import ChatPredictor
from heedful.tasks.embedder import TextEmbedder
from heedful.tasks.language.predictor import TextGenerator

_GROUP: Final = "OpenAI"


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


def iter_routes(registry: ModelRegistry) -> Iterator[Route]:
    """Yield the routes for listing models, and those that some served model supports."""
    yield Route(
        path="/v1/models",
        method="GET",
        handler=_answer_models,
        response_type=ModelList,
        summary="models that are served",
        group=_GROUP,
    )
    yield Route(
        path="/v1/models/{name:path}",
        method="GET",
        handler=_answer_model,
        response_type=ModelCard,
        summary="one of them",
        group=_GROUP,
    )
    if registry.find_models(TextGenerator):
        yield Route(
            path="/v1/completions",
            handler=answer_completion,
            request_type=CompletionRequest,
            response_type=CompletionResponse,
            summary="a language model continues prompts",
            group=_GROUP,
            examples=({"prompt": "Once upon a time", "max_tokens": 20, "temperature": 0}, {"prompt": "", "seed": 1}),
        )
    if registry.find_models(ChatPredictor):
        yield Route(
            path="/v1/chat/completions",
            handler=answer_chat,
            request_type=ChatCompletionRequest,
            response_type=ChatCompletion,
            summary="a dialogue model writes the next turn",
            group=_GROUP,
            examples=({"messages": [{"role": "user", "content": "I want to eat something cheap."}]},),
        )
    if registry.find_models(TextEmbedder):  # type: ignore[type-abstract]  # a protocol
        yield Route(
            path="/v1/embeddings",
            handler=answer_embedding,
            request_type=EmbeddingRequest,
            response_type=EmbeddingResponse,
            summary="vectors of texts",
            group=_GROUP,
            examples=({"input": ["A dog runs.", "A cat sleeps."], "encoding_format": "float"},),
        )
    if has_capable_model(registry, "transcribe"):
        yield Route(
            path="/v1/audio/transcriptions",
            handler=answer_transcription,
            request_type=TranscriptionRequest,
            response_type=TranscriptionResponse,
            summary="a speech model transcribes a sound",
            read_fields=read_transcription_form,
            accepts_files=True,
            group=_GROUP,
            other_media_types=(("text/plain", "with `response_format` = text"),),
        )


async def _answer_models(context: RequestContext) -> HandlerResult:
    """List all served models."""
    cards = [_build_card(model) for model in context.registry.models.values()]
    return ModelList(object="list", data=cards)


async def _answer_model(context: RequestContext) -> HandlerResult:
    """Describe the model that the path names."""
    return _build_card(context.registry.get_model(object, context.request.path_params["name"], action="answer"))


def _build_card(model: LoadedModel[Any]) -> ModelCard:
    """Describe a model in OpenAI's format."""
    return ModelCard(id=model.name, object="model", created=model.created, owned_by="heedful")
