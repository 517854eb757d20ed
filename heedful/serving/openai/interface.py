"""OpenAI's interface, as its clients use it: models, completions, chat, embeddings and transcripts under `/v1`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from heedful.serving.house import House, Model
from heedful.serving.openai.audio import Transcript, TranscriptionRequest, read_form, transcribe
from heedful.serving.openai.chat import ChatCompletion, ChatRequest, chat
from heedful.serving.openai.completion import Completion, CompletionRequest
from heedful.serving.openai.completions import complete
from heedful.serving.openai.embeddings import EmbeddingRequest, Embeddings, embed
from heedful.serving.openai.writing import Strict
from heedful.serving.routes import Answer, Asked, Route
from heedful.serving.uses import is_served
from heedful.tasks.conversation.face import Partner
from heedful.tasks.embedder import Embeds
from heedful.tasks.language.face import Writer

_GROUP: Final = "OpenAI"


class ModelCard(Strict):
    """A model that is served."""

    id: str
    """its name, by which it is asked for"""
    object: Literal["model"]
    created: int
    """when it was loaded, in seconds since 1970"""
    owned_by: str


class ModelList(Strict):
    """All models that are served."""

    object: Literal["list"]
    data: list[ModelCard]


def routes(house: House) -> Iterator[Route]:
    """The models, and what there are models for."""
    yield Route(
        path="/v1/models", method="GET", answer=_models, gives=ModelList, about="models that are served", group=_GROUP
    )
    yield Route(
        path="/v1/models/{name:path}", method="GET", answer=_model, gives=ModelCard, about="one of them", group=_GROUP
    )
    if house.of(Writer):
        yield Route(
            path="/v1/completions",
            answer=complete,
            takes=CompletionRequest,
            gives=Completion,
            about="a language model goes on with prompts",
            group=_GROUP,
            examples=({"prompt": "Once upon a time", "max_tokens": 20, "temperature": 0}, {"prompt": "", "seed": 1}),
        )
    if house.of(Partner):
        yield Route(
            path="/v1/chat/completions",
            answer=chat,
            takes=ChatRequest,
            gives=ChatCompletion,
            about="a model of conversation says what comes next",
            group=_GROUP,
            examples=({"messages": [{"role": "user", "content": "I want to eat something cheap."}]},),
        )
    if house.of(Embeds):  # type: ignore[type-abstract]  # a protocol
        yield Route(
            path="/v1/embeddings",
            answer=embed,
            takes=EmbeddingRequest,
            gives=Embeddings,
            about="vectors of texts",
            group=_GROUP,
            examples=({"input": ["A dog runs.", "A cat sleeps."], "encoding_format": "float"},),
        )
    if is_served(house, "transcribe"):
        yield Route(
            path="/v1/audio/transcriptions",
            answer=transcribe,
            takes=TranscriptionRequest,
            gives=Transcript,
            about="a model of speech writes what is said",
            reads=read_form,
            files=True,
            group=_GROUP,
            also=(("text/plain", "with `response_format` = text"),),
        )


async def _models(asked: Asked) -> Answer:
    cards = [_card(model) for model in asked.house.models.values()]
    return ModelList(object="list", data=cards)


async def _model(asked: Asked) -> Answer:
    return _card(asked.house.model(object, asked.request.path_params["name"], use="answer"))


def _card(model: Model[Any]) -> ModelCard:
    return ModelCard(id=model.name, object="model", created=model.created, owned_by="heedful")
