"""Routes of models that read pictures, clips and sounds: caption, look and transcribe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import numpy as np
import torch
from pydantic import Field
from starlette.responses import Response

from heedful.data.clips import Clip
from heedful.data.pictures import Picture
from heedful.data.sound import Sound
from heedful.inspection.record import InspectionRecord
from heedful.serving.api.handlers import (
    DecodingRequest,
    FileContent,
    FrameList,
    InspectHTTPRequest,
    ModelAnswers,
    ModelRequest,
    check_limits,
    report_growth,
)
from heedful.serving.api.translation import check_length
from heedful.serving.api.uploads import (
    find_file_field,
    find_inspected_field,
    open_clip,
    open_picture,
    open_sound,
    read_upload_fields,
)
from heedful.serving.capabilities import Capability, declare_model_route, find_capable_model
from heedful.serving.http_errors import bad_request
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import RequestContext
from heedful.serving.sse import NAMED_EVENTS, NamedEvent, stream_response
from heedful.tasks.batch_executor import run_call
from heedful.tasks.captioning.predictor import (
    BaseCaptioner,
    Captioner,
    CaptionLineFormat,
    CaptionRecord,
    VideoCaptioner,
)
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.glimpses.data import PixelArray
from heedful.tasks.glimpses.predictor import GlimpsePredictor, PictureClassRecord
from heedful.tasks.inspection_records import InspectionSelection, set_beam_width
from heedful.tasks.predictor import dump_record
from heedful.tasks.search_factory import build_length_limits, build_search
from heedful.tasks.speech.predictor import SpeechRecognizer, TranscriptRecord

GROUP: Final = "perception"
HeardFunction: TypeAlias = Callable[[int, TextCandidate], None]
"""Called with the index of an input and its text so far."""
_FIELDS_BY_CAPTIONER: Final[Mapping[type[Any], tuple[str, ...]]] = {
    Captioner: ("image",),
    VideoCaptioner: ("clip", "frames"),
}
"""Request fields in which each type of captioner takes its input."""
_MAX_VIDEO_BYTES: Final = 2**33
"""Maximum bytes of a video's decoded frames: some minutes of a small video, one of a large one."""
_MAX_ARRAY_BYTES: Final = 2**27
"""Maximum bytes of an array of frames, which is held in memory."""


class CaptionRequest(DecodingRequest):
    """A request to describe a picture or a clip, as `heedful caption` does; exactly one of `image`, `clip` and
    `frames` is given.
    """

    image: FileContent | None = None
    """a picture, in base64 or as a data URL; in multipart/form-data, a file of this name"""
    clip: FileContent | None = None
    """a clip, likewise: a video, or another format that the model was trained on"""
    frames: FrameList | None = None
    """a clip as a list of pictures, likewise, in order"""
    align: bool = False
    """return the attention weights of each word"""
    stream: bool = False
    """send the caption while it is generated, as server-sent events"""


def _warm_up_captioner(predictor: Any) -> object:
    """Caption one black picture or clip."""
    if isinstance(predictor, Captioner):
        size = predictor.framing.size
        return predictor.caption([np.zeros((size, size, 3), dtype=np.uint8)])
    black = np.zeros((1, *predictor.array_spec.shape), predictor.array_spec.dtype)
    return predictor.caption([Clip(black, np.zeros(1, dtype=np.int64))])


def _list_input_fields(predictor: Any) -> tuple[str, ...]:
    """Return the request fields in which a captioner takes its input."""
    return next(
        names for predictor_type, names in _FIELDS_BY_CAPTIONER.items() if isinstance(predictor, predictor_type)
    )


def _prepare_caption_inspection(
    context: RequestContext, model: LoadedModel[Any], message: InspectHTTPRequest
) -> Callable[[], InspectionRecord]:
    """Return a function that inspects a captioner on the picture or clip in a message; raise an `HTTPError` if the
    message has another input.
    """
    predictor = model.predictor
    name = find_inspected_field(message, *_list_input_fields(predictor))
    search = predictor.search if message.beam is None else set_beam_width(predictor.search, message.beam)
    content, options = getattr(message, name), {"search": search, "scope": InspectionSelection(attribution="auto")}

    def inspect_content() -> InspectionRecord:
        if name == "image":
            picture = _load_picture(context, predictor, content)
            record: InspectionRecord = run_call(partial(predictor.inspect, picture, message.pair, **options))
        else:
            with _open_clip(context, predictor, content, name=name) as path:
                record = run_call(partial(predictor.inspect, path, message.pair, **options))
        return replace(record, title="1")  # and not where the file was

    return inspect_content


@contextmanager
def _open_clip(context: RequestContext, predictor: VideoCaptioner, content: Any, *, name: str) -> Iterator[Path]:
    """Store the clip that a request sent in its field `name`, a file or a list of pictures, for the duration of the
    block, and yield its path; raise an `HTTPError` if its frames, as the predictor decodes them, need too much memory.
    """
    with open_clip(content, context, name=name, estimate_memory=predictor.peak_memory) as path:
        max_bytes = _MAX_ARRAY_BYTES if path.suffix == ".npz" else _MAX_VIDEO_BYTES
        if path.is_file() and (size := predictor.decoded_size(path)) > max_bytes:
            message = f"{name}: {size:,} bytes of frames; this server decodes at most {max_bytes:,}: cut or shrink it"
            raise bad_request(message, param=name)
        yield path


@declare_model_route(
    "caption",
    "describe a picture or a clip",
    ModelAnswers[CaptionRecord],
    group=GROUP,
    read_fields=read_upload_fields,
    accepts_files=True,
)
async def _answer_caption(context: RequestContext, message: CaptionRequest) -> Any:
    """Describe the picture or clip of a request, and return the model's name and the record of the caption or, if a
    stream is requested, a response that streams it.
    """
    check_limits(context, message)
    name = find_file_field(message, "image", "clip", "frames")
    predictor_type = next(predictor_type for predictor_type, names in _FIELDS_BY_CAPTIONER.items() if name in names)
    model = context.registry.get_model(
        (predictor_type,), message.model, action=f"describe {predictor_type.input_noun}s"
    )
    predictor, limits = model.predictor, context.limits
    config = message.build_config(predictor.generation)
    search = build_search(config, predictor.target.tokenizer, n_best=message.n_best, seed=message.seed)
    length = check_length(message, build_length_limits(config), limits, max_source_tokens=1)
    line_format = CaptionLineFormat(predictor, search, length, all_candidates=message.n_best > 1)

    def work(heard: HeardFunction | None = None) -> list[Mapping[str, Any]]:
        model_input = _load_input(context, predictor, getattr(message, name), name=name)
        context.deadline.raise_if_over()
        captions = predictor.caption([model_input], search=search, length=length, heard=heard)
        context.deadline.raise_if_over()
        return [_build_caption_record(line_format, caption, model_input, align=message.align) for caption in captions]

    return await _answer_growing(context, model, work, stream=message.stream)


async def _answer_growing(
    context: RequestContext,
    model: LoadedModel[Any],
    work: Callable[..., list[Mapping[str, Any]]],
    *,
    stream: bool,
) -> Mapping[str, Any] | Response:
    """Run `work` on a model for a request, and return the model's name and the records, or, with `stream`, a response
    that streams them. `work` is given a function that it calls with the text so far.
    """
    if not stream:
        return {"model": model.name, "answers": await model.run(context.deadline, work)}

    def stream_work(emit: Callable[[NamedEvent], None]) -> None:
        answers = work(report_growth(context, emit))
        emit(("record", {"model": model.name, "answers": answers}))

    return await stream_response(context, model, stream_work, event_format=NAMED_EVENTS)


def _load_input(context: RequestContext, predictor: BaseCaptioner[Any], content: Any, *, name: str) -> Any:
    """Decode the content of the request field `name` into the input of a captioner: a square picture, or a clip of
    frames or their features.
    """
    if isinstance(predictor, Captioner):
        return _load_picture(context, predictor, content)
    assert isinstance(predictor, VideoCaptioner), "there are no other captioners"
    with _open_clip(context, predictor, content, name=name) as path:
        return predictor.extract_features(path)


def _load_picture(context: RequestContext, predictor: Captioner, content: Any) -> Picture:
    with open_picture(content, context) as picture:
        return predictor.framing(picture)


def _build_caption_record(line_format: CaptionLineFormat, caption: Any, model_input: Any, *, align: bool) -> Any:
    """Build the record of a caption, which the line format writes, as JSON data; with the attention weights of its
    words to the model input if `align` is set.
    """
    record = line_format.to_record(caption)
    if align and line_format.captioner.has_attention and caption.text:
        (attention,) = line_format.captioner.attend([(model_input, caption.text)])
        frames = model_input.frame_indices.tolist() if isinstance(model_input, Clip) else ()
        record = record.model_copy(update={"looked": attention.to_record(frames=frames)})
    return dump_record(record)


class LookRequest(ModelRequest):
    """A request to classify a picture glimpse by glimpse, as `heedful look` does."""

    image: FileContent
    """the picture, in base64 or as a data URL; in multipart/form-data, a file of this name"""


def _warm_up_glimpses(predictor: GlimpsePredictor) -> object:
    return predictor.look_at([np.zeros(predictor.shape, dtype=np.uint8)])


def _prepare_look_inspection(
    context: RequestContext, model: LoadedModel[Any], message: InspectHTTPRequest
) -> Callable[[], InspectionRecord]:
    """Return a function that inspects a model on the picture in a message; raise an `HTTPError` if the message has
    another input, or options of models that write text.
    """
    find_inspected_field(message, "image")
    for name in ("pair", "beam"):
        if getattr(message, name) is not None:
            raise bad_request(f"{name}: this model does not write text; leave it out", param=name)
    predictor, image = model.predictor, message.image
    assert image is not None, "it is perceived"
    return lambda: run_call(partial(predictor.inspect, _load_pixels(context, predictor, image), title="1"))


@declare_model_route(
    "look",
    "classify a picture, glimpse by glimpse",
    ModelAnswers[PictureClassRecord],
    group=GROUP,
    read_fields=read_upload_fields,
    accepts_files=True,
)
async def _answer_look(context: RequestContext, message: LookRequest) -> Mapping[str, Any]:
    """Classify the picture of a request, and return the model's name and the record of its class and the glimpses."""
    check_limits(context, message)
    model = find_capable_model(context.registry, "look", message.model)
    predictor: GlimpsePredictor = model.predictor

    def work() -> list[Mapping[str, Any]]:
        pixels = _load_pixels(context, predictor, message.image)
        context.deadline.raise_if_over()
        lines = predictor.line_format()
        return [lines.to_json(("1", sight)) for sight in predictor.look_at([pixels])]

    return {"model": model.name, "answers": await model.run(context.deadline, work)}


def _load_pixels(context: RequestContext, predictor: GlimpsePredictor, image: FileContent) -> PixelArray:
    with open_picture(image, context) as picture:
        return predictor.fit_picture(picture)


class TranscribeRequest(DecodingRequest):
    """A request to transcribe a sound, as `heedful transcribe` does."""

    sound: FileContent
    """the sound, in base64 or as a data URL; in multipart/form-data, a file of this name"""
    language: Annotated[str, Field(max_length=40)] | None = None
    """code of the spoken language, for models of several; they recognise it if it is not given"""
    to_english: bool = False
    """translate the speech into English, for models that can"""
    stream: bool = False
    """send the text while it is generated, as server-sent events"""


def _warm_up_recognizer(predictor: SpeechRecognizer) -> object:
    frontend = predictor.frontend
    return predictor.transcribe([Sound(torch.zeros(frontend.frame_length), frontend.rate)])


def _prepare_speech_inspection(
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
        with open_sound(content, context, frontend=frontend, max_seconds=predictor.max_seconds, name="sound") as sound:
            selection = InspectionSelection(attribution="auto")
            record: InspectionRecord = run_call(partial(predictor.inspect, sound, message.pair, scope=selection))
            return record

    return inspect_sound


CAPABILITIES = (
    Capability(
        "caption",
        (Captioner, VideoCaptioner),
        "describe pictures or clips",
        _warm_up_captioner,
        _prepare_caption_inspection,
        lambda model: {"takes": model.predictor.input_noun},
    ),
    Capability(
        "look",
        (GlimpsePredictor,),
        "look at pictures",
        _warm_up_glimpses,
        _prepare_look_inspection,
        lambda _: {"takes": "picture"},
    ),
    Capability(
        "transcribe",
        (SpeechRecognizer,),
        "transcribe sounds",
        _warm_up_recognizer,
        _prepare_speech_inspection,
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
async def _answer_transcribe(context: RequestContext, message: TranscribeRequest) -> Mapping[str, Any] | Response:
    model, work = prepare_transcription(
        context, message, field_name="sound", language=message.language, to_english=message.to_english
    )
    return await _answer_growing(context, model, work, stream=message.stream)


def prepare_transcription(
    context: RequestContext,
    message: TranscribeRequest,
    *,
    field_name: str,
    language: str | None = None,
    to_english: bool = False,
) -> tuple[LoadedModel[SpeechRecognizer], Callable[..., list[Mapping[str, Any]]]]:
    """Return the model that a message requests, and a function that transcribes its sound within the limits and the
    deadline of the request, and returns a list with the one record. The function may be given another one, which it
    calls with the text so far. Errors call the sound `field_name`. The sound is in `language`, if given, and is
    translated with `to_english`.
    """
    check_limits(context, message)
    model = find_capable_model(context.registry, "transcribe", message.model)
    predictor: SpeechRecognizer = model.predictor.with_language(language, to_english=to_english)
    limits = context.limits
    config = message.build_config(predictor.generation)
    check_length(message, build_length_limits(config), limits, max_source_tokens=predictor.max_slots)

    def work(heard: HeardFunction | None = None) -> list[Mapping[str, Any]]:
        with open_sound(
            message.sound, context, frontend=predictor.frontend, max_seconds=predictor.max_seconds, name=field_name
        ) as sound:
            context.deadline.raise_if_over()
            results = predictor.transcribe(
                [sound], generation=config, n_best=message.n_best, seed=message.seed, heard=heard
            )
        context.deadline.raise_if_over()
        return [predictor.line_format().to_json(numbered) for numbered in enumerate(results, 1)]

    return model, work


async def transcribe_sound(
    context: RequestContext, message: TranscribeRequest, **options: Any
) -> tuple[str, list[Mapping[str, Any]]]:
    """Transcribe the sound in a message; return the name of the model and a list with the one record. `options` are
    those of `prepare_transcription`.
    """
    model, work = prepare_transcription(context, message, **options)
    return model.name, await model.run(context.deadline, work)
