"""`/v1/audio/transcriptions` of OpenAI's interface: models of speech write what is said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from heedful.serving.openai.writing import Absent, Strict
from heedful.serving.own.hearing import heard
from heedful.serving.own.messages import Transcribe
from heedful.serving.own.sent import read_sent
from heedful.serving.routes import Answer, Asked


class TranscriptionRequest(Strict):
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
    prompt: Absent = None
    stream: Absent = None
    timestamp_granularities: Absent = None
    include: Absent = None
    chunking_strategy: Absent = None


class TranscriptionUsage(Strict):
    """How much was heard."""

    type: Literal["duration"]
    seconds: int
    """begun ones"""


class Transcript(Strict):
    """What is said; with `verbose_json` more of it."""

    text: str
    usage: TranscriptionUsage
    task: Literal["transcribe"] | None = None
    language: str | None = None
    duration: float | None = None
    """seconds of the sound"""


async def read_form(request: Request) -> Mapping[str, Any]:
    """As `read_sent` has it; lists are called with brackets in forms."""
    return {name.removesuffix("[]"): value for name, value in (await read_sent(request)).items()}


async def transcribe(asked: Asked, message: TranscriptionRequest) -> Answer:
    """What is said."""
    drawn = {"search": "sampling", "temperature": message.temperature} if message.temperature else {}
    own = Transcribe(model=message.model, sound=message.file, **drawn)  # type: ignore[arg-type]  # of a table
    _, (found,) = await heard(asked, own, name="file")
    if message.response_format == "text":
        return PlainTextResponse(f"{found['text']}\n")
    usage = TranscriptionUsage(type="duration", seconds=math.ceil(found["seconds"]))
    if message.response_format != "verbose_json":
        return Transcript(text=found["text"], usage=usage)
    return Transcript(
        text=found["text"], usage=usage, task="transcribe", language=message.language, duration=found["seconds"]
    )
