"""Route of speech recognition models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from heedful.data.sound import Sound
from heedful.inspection.record import InspectionRecord
from heedful.serving.api.captioning import GROUP
from heedful.serving.api.handlers import DecodingRequest, FileContent, InspectHTTPRequest, ModelAnswers, check_limits
from heedful.serving.api.translation import check_length
from heedful.serving.api.uploads import find_inspected_field, open_sound, read_upload_fields
from heedful.serving.capabilities import Capability, declare_model_route, find_capable_model
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import RequestContext
from heedful.tasks.inspection_records import InspectionSelection
from heedful.tasks.search_factory import build_length_limits
from heedful.tasks.speech.data import count_slots
from heedful.tasks.speech.predictor import SpeechRecognizer, TranscriptRecord


class TranscribeRequest(DecodingRequest):
    """A request to transcribe a sound, as `heedful transcribe` does."""

    sound: FileContent
    """the sound, in base64 or as a data URL; in multipart/form-data, a file of this name"""


def _warm_up(predictor: SpeechRecognizer) -> object:
    frontend = predictor.frontend
    return predictor.transcribe([Sound(torch.zeros(frontend.frame_length), frontend.rate)])


def _prepare_inspection(
    context: RequestContext, model: LoadedModel[Any], message: InspectHTTPRequest
) -> Callable[[], InspectionRecord]:
    """Return a function that inspects a speech model on the sound in a message; raise an `HTTPError` if the message has
    another input.
    """
    find_inspected_field(message, "sound")
    predictor = model.predictor if message.beam is None else model.predictor.with_beam_width(message.beam)
    assert message.sound is not None, "it is perceived"
    content, frontend = message.sound, predictor.frontend

    def inspect_sound() -> InspectionRecord:
        with open_sound(content, context, max_seconds=predictor.max_seconds, rate=frontend.rate, name="sound") as sound:
            record: InspectionRecord = predictor.inspect(
                sound, message.pair, scope=InspectionSelection(attribution="auto")
            )
            return record

    return inspect_sound


CAPABILITIES = (
    Capability(
        "transcribe",
        (SpeechRecognizer,),
        "transcribe sounds",
        _warm_up,
        _prepare_inspection,
        lambda _: {"takes": "sound"},
    ),
)


@declare_model_route(
    "transcribe",
    "transcribe a sound",
    ModelAnswers[TranscriptRecord],
    group=GROUP,
    read_fields=read_upload_fields,
    accepts_files=True,
)
async def _answer_transcribe(context: RequestContext, message: TranscribeRequest) -> Mapping[str, Any]:
    name, answers = await transcribe_sound(context, message, field_name="sound")
    return {"model": name, "answers": answers}


async def transcribe_sound(
    context: RequestContext, message: TranscribeRequest, *, field_name: str
) -> tuple[str, list[Mapping[str, Any]]]:
    """Transcribe the sound in a message, within the limits and the deadline of the request; return the name of the
    model and a list with the one record. Errors call the sound `field_name`.
    """
    check_limits(context, message)
    model = find_capable_model(context.registry, "transcribe", message.model)
    predictor: SpeechRecognizer = model.predictor
    limits = context.limits
    config = message.build_config(predictor.generation)
    max_frames = count_slots(round(1000 * predictor.max_seconds / predictor.frontend.hop))
    check_length(message, build_length_limits(config), limits, max_source_tokens=max_frames)

    def work() -> list[Mapping[str, Any]]:
        with open_sound(
            message.sound, context, max_seconds=predictor.max_seconds, rate=predictor.frontend.rate, name=field_name
        ) as sound:
            context.deadline.raise_if_over()
            results = predictor.transcribe([sound], generation=config, n_best=message.n_best, seed=message.seed)
        context.deadline.raise_if_over()
        return [predictor.line_format().to_json(numbered) for numbered in enumerate(results, 1)]

    return model.name, await model.run(context.deadline, work)
