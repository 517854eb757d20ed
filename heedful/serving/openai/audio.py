"""`/v1/audio/transcriptions` of OpenAI's interface: transcribe sounds with speech models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from heedful.recipes.generation import GreedyConfig, SamplingConfig
from heedful.serving.api.media import TranscribeRequest, prepare_transcription, transcribe_sound
from heedful.serving.api.uploads import read_upload_fields
from heedful.serving.capabilities import find_capable_model, has_capable_model
from heedful.serving.http_errors import bad_request
from heedful.serving.openai.generation import OpenAIMessage, UnsupportedField
from heedful.serving.openai.models import GROUP
from heedful.serving.routes import HandlerResult, RequestContext, declare_route
from heedful.serving.sse import OPENAI_CHUNKS, ChunkEvent, stream_response
from heedful.tasks.decoder_target import TextCandidate


class TranscriptionRequest(OpenAIMessage):
    """A sound to transcribe."""

    file: str | bytes
    """the sound, as a file of multipart/form-data or in base64"""
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """name of a served model, see /v1/models; not needed if only one model can do this"""
    response_format: Literal["json", "text", "verbose_json"] | None = None
    """the text in JSON, as plain text, or in JSON with the seconds of the sound"""
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    """above 0, tokens are sampled; 0 uses the search of the model's recipe"""
    language: Annotated[str, Field(max_length=40)] | None = None
    """code of the language of the sound; only models of several languages use it, and `verbose_json` returns it"""
    stream: bool | None = None
    """send the text while it is generated, as server-sent events; with a beam, all of it at the end"""
    prompt: UnsupportedField = None
    timestamp_granularities: UnsupportedField = None
    include: UnsupportedField = None
    chunking_strategy: UnsupportedField = None


class TranscriptionUsage(OpenAIMessage):
    """Seconds of sound that were transcribed."""

    type: Literal["duration"]
    seconds: int
    """rounded up"""


class TranscriptionResponse(OpenAIMessage):
    """The text of a sound; with `verbose_json` also its language and duration."""

    text: str
    usage: TranscriptionUsage
    task: Literal["transcribe"] | None = None
    language: str | None = None
    duration: float | None = None
    """seconds of the sound"""


async def _read_transcription_form(request: Request) -> Mapping[str, Any]:
    """Read the fields of a form or JSON body; list fields of forms lose their brackets."""
    return {name.removesuffix("[]"): value for name, value in (await read_upload_fields(request)).items()}


@declare_route(
    "/v1/audio/transcriptions",
    "a speech model transcribes a sound",
    response_type=TranscriptionResponse,
    read_fields=_read_transcription_form,
    accepts_files=True,
    group=GROUP,
    other_media_types=(("text/plain", "with `response_format` = text"),),
    is_served=partial(has_capable_model, capability="transcribe"),
)
async def _answer_transcription(context: RequestContext, message: TranscriptionRequest) -> HandlerResult:
    """Transcribe the sound of a request, and return the text in the format that it requests: JSON, plain text, JSON
    with the language and the seconds of the sound, or a stream of events.
    """
    if message.stream and message.response_format not in (None, "json"):
        raise bad_request("response_format: a stream is of JSON; leave it out", param="response_format")
    sampling_options = {"search": "sampling", "temperature": message.temperature} if message.temperature else {}
    transcribe_request = TranscribeRequest(model=message.model, sound=message.file, **sampling_options)  # type: ignore[arg-type]  # of a table
    languages = find_capable_model(context.registry, "transcribe", message.model).predictor.languages
    language = message.language if message.language in languages else None
    if message.stream:
        model, work = prepare_transcription(context, transcribe_request, field_name="file", language=language)
        config = transcribe_request.build_config(model.predictor.generation)
        stream_work = partial(_stream_text, work, is_final=isinstance(config, GreedyConfig | SamplingConfig))
        return await stream_response(context, model, stream_work, event_format=OPENAI_CHUNKS)
    _, (record,) = await transcribe_sound(context, transcribe_request, field_name="file", language=language)
    if message.response_format == "text":
        return PlainTextResponse(f"{record['text']}\n")
    usage = TranscriptionUsage(type="duration", seconds=math.ceil(record["seconds"]))
    if message.response_format != "verbose_json":
        return TranscriptionResponse(text=record["text"], usage=usage)
    return TranscriptionResponse(
        text=record["text"], usage=usage, task="transcribe", language=message.language, duration=record["seconds"]
    )


def _stream_text(
    work: Callable[..., list[Mapping[str, Any]]], emit: Callable[[ChunkEvent], None], *, is_final: bool
) -> None:
    """Run `work`, which transcribes a sound, and emit the parts of its text as they are generated, and then all of it.
    Without `is_final` a part may still change, so there is only one; the last word of a growing text waits for its end.
    """
    num_sent = 0

    def emit_part(text: str) -> None:
        """Emit the part of a text that was not sent before."""
        nonlocal num_sent
        if len(text) > num_sent:
            emit({"type": "transcript.text.delta", "delta": text[num_sent:]})
            num_sent = len(text)

    def emit_words(_index: int, candidate: TextCandidate) -> None:
        """Emit the finished words of a growing text."""
        emit_part(candidate.text[: candidate.text.rfind(" ") + 1].rstrip())

    (record,) = work(emit_words if is_final else None)
    emit_part(record["text"])
    emit({"type": "transcript.text.done", "text": record["text"]})
