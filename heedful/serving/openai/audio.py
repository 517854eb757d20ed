"""`/v1/audio/transcriptions` of OpenAI's interface: models of speech write what is said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from heedful.serving.api.requests import TranscribeRequest
from heedful.serving.api.speech import transcribe_sound
from heedful.serving.api.uploads import read_upload_fields
from heedful.serving.openai.generation import OpenAIMessage, UnsupportedField
from heedful.serving.routes import HandlerResult, RequestContext


class TranscriptionRequest(OpenAIMessage):
    """A sound of which to write what is said."""

    file: str | bytes
    """the sound: a file of multipart/form-data, or in base 64"""
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """name of a model that is served, see /v1/models; not needed where one alone does this"""
    response_format: Literal["json", "text", "verbose_json"] | None = None
    """the text in JSON, or alone, or with the seconds of the sound"""
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    """above 0 draws each token; 0 is the model's own way, as its recipe says"""
    language: Annotated[str, Field(max_length=40)] | None = None
    """of the sound; a model writes the one that it learned, so this is only told again by `verbose_json`"""
    prompt: UnsupportedField = None
    stream: UnsupportedField = None
    timestamp_granularities: UnsupportedField = None
    include: UnsupportedField = None
    chunking_strategy: UnsupportedField = None


class TranscriptionUsage(OpenAIMessage):
    """How much was heard."""

    type: Literal["duration"]
    seconds: int
    """begun ones"""


class TranscriptionResponse(OpenAIMessage):
    """What is said; with `verbose_json` more of it."""

    text: str
    usage: TranscriptionUsage
    task: Literal["transcribe"] | None = None
    language: str | None = None
    duration: float | None = None
    """seconds of the sound"""


async def read_transcription_form(request: Request) -> Mapping[str, Any]:
    """As `read_upload_fields` has it; lists are called with brackets in forms."""
    return {name.removesuffix("[]"): value for name, value in (await read_upload_fields(request)).items()}


async def answer_transcription(context: RequestContext, message: TranscriptionRequest) -> HandlerResult:
    """What is said."""
    sampling_options = {"search": "sampling", "temperature": message.temperature} if message.temperature else {}
    transcribe_request = TranscribeRequest(model=message.model, sound=message.file, **sampling_options)  # type: ignore[arg-type]  # of a table
    _, (record,) = await transcribe_sound(context, transcribe_request, field_name="file")
    if message.response_format == "text":
        return PlainTextResponse(f"{record['text']}\n")
    usage = TranscriptionUsage(type="duration", seconds=math.ceil(record["seconds"]))
    if message.response_format != "verbose_json":
        return TranscriptionResponse(text=record["text"], usage=usage)
    return TranscriptionResponse(
        text=record["text"], usage=usage, task="transcribe", language=message.language, duration=record["seconds"]
    )
