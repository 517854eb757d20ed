"""What request handlers share: request messages, limits, batched answers and inspection of text models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from annotated_types import MaxLen
from pydantic import BaseModel, ConfigDict, Field

from heedful.inspection.record import InspectionRecord
from heedful.recipes.generation import ContinuationConfig, GenerationConfig, override_generation
from heedful.serving.http_errors import bad_request
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import MAX_INTEGER, RequestContext, StrictMessage, add_search_fields, read_search_options
from heedful.serving.sse import NamedEvent
from heedful.tasks.batch_executor import run_call
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.inspection_records import InspectionSelection
from heedful.tasks.predictor import AnswerRecord, InspectRequest, LineFormat, Predictor, UnreadableInput, iter_chunks

InputText: TypeAlias = str
InputTexts: TypeAlias = InputText | Annotated[list[InputText], Field(min_length=1)]
IntAtLeast1: TypeAlias = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
FileContent: TypeAlias = str | bytes
"""A file in base64 or as a data URL, or its bytes if it came with multipart/form-data."""
RequestName: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]

FILE_FIELDS = ("image", "sound", "clip", "frames")
"""Fields that hold files."""
MAX_FRAMES = 256
"""Maximum number of pictures of a clip."""


class ModelRequest(StrictMessage):
    """A request to one model.

    Abstract.
    """

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    model: RequestName | None = None
    """name of the model; not needed if only one model can do this"""


class _SearchRequest(ModelRequest):
    """A request with options of a search. Abstract."""

    search: str | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """random seed of sampling"""

    def _override_config(self, recipe: Any, config_type: Any) -> Any:
        """Return the recipe's config with the options of this request; see `override_generation`."""
        options = read_search_options(self, config_type)
        return override_generation(recipe, config_type, options, help_hint="GET /docs lists the fields")


@add_search_fields(GenerationConfig)
class DecodingRequest(_SearchRequest):
    """A request with the decoding options of `heedful translate`; the recipe sets those that are not given.

    Abstract.
    """

    n_best: IntAtLeast1 = 1
    """number of answers to each text, best first"""

    def build_config(self, recipe: GenerationConfig) -> GenerationConfig:
        """Return `recipe`, the generation config of a model's recipe, with the options of this request; raise a
        `RecipeError` if they do not fit.
        """
        config: GenerationConfig = self._override_config(recipe, GenerationConfig)
        return config

    @property
    def changes_length(self) -> bool:
        """Whether the request changes the length limits of the recipe."""
        options = read_search_options(self, GenerationConfig)
        return not options.keys().isdisjoint(("max_ratio", "max_extra", "min_ratio", "min_length"))


@add_search_fields(ContinuationConfig, limits={"stop": MaxLen(16)})
class ContinuationRequest(_SearchRequest):
    """A request with the options of `heedful generate`; the recipe sets those that are not given.

    Abstract.
    """

    stream: bool = False
    """send the text while it is generated, as server-sent events; for one prompt"""

    def build_config(self, recipe: ContinuationConfig) -> ContinuationConfig:
        """Return `recipe`, the continuation config of a model's recipe, with the options of this request; raise a
        `RecipeError` if they do not fit.
        """
        config: ContinuationConfig = self._override_config(recipe, ContinuationConfig)
        return config


class RequestTurn(StrictMessage):
    """One turn of a dialogue."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    speaker: RequestName
    """name of a speaker in the dialogues of the model"""
    text: InputText
    """text of the turn"""


FrameList: TypeAlias = Annotated[list[FileContent], Field(min_length=1, max_length=MAX_FRAMES)]


class InspectHTTPRequest(ModelRequest):
    """A request to record what a model attends to on one or two texts, a picture, a clip or a sound, as `heedful
    inspect` does.
    """

    text: InputText = ""
    """the input text of models that read texts"""
    pair: InputText | None = None
    """a given translation, caption or transcript, the second of two texts, or the context or story of a question"""
    image: FileContent | None = None
    """input of picture models, as in `caption`"""
    clip: FileContent | None = None
    """input of clip models, as in `caption`"""
    frames: FrameList | None = None
    """input of clip models, as in `caption`"""
    sound: FileContent | None = None
    """input of speech models, as in `transcribe`"""
    to: RequestName | None = None
    """language to translate into, if there are several"""
    beam: Annotated[int, Field(ge=1, le=20)] | None = None
    """beam width of the search, whose tree is recorded"""
    tokens: Annotated[int, Field(ge=0, le=200)] | None = None
    """maximum number of generated tokens"""
    format: Literal["record", "safetensors", "page", "link"] = "record"
    """the record as JSON (as the page reads it) or as a safetensors file in base64; the page as HTML; or a link to the
    page, which the server stores for some minutes"""


def iter_texts(value: Any) -> Iterator[str]:
    """Yield all texts in a field of a message: a text, the text of a turn, or those in a list, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from iter_texts(item)
    elif isinstance(value, RequestTurn):
        yield value.text


Input = TypeVar("Input")
RecordT = TypeVar("RecordT")


class ModelAnswers(AnswerRecord, Generic[RecordT]):
    """Answers of a model, in the order of the inputs."""

    model: str
    """name of the model that answered"""
    answers: list[RecordT]
    """one answer for each text, unless several were requested"""


def to_list(values: str | Sequence[Input]) -> list[Any]:
    """Return one text as a list, and several as a new list."""
    return [values] if isinstance(values, str) else list(values)


def check_limits(context: RequestContext, message: BaseModel, *, num_texts: int = 1) -> None:
    """Raise an `HTTPError` if a message exceeds the server's limits.

    Args:
        context: of the request.
        message: the request; files have a limit of their own.
        num_texts: number of texts in the message.
    """
    limits = context.limits
    field_values = {name: getattr(message, name) for name in type(message).model_fields if name not in FILE_FIELDS}
    characters = sum(map(len, iter_texts(list(field_values.values()))))
    if characters > limits.characters:
        raise bad_request(f"{characters:,} characters of text; a request may have {limits.characters:,}: send fewer")
    if num_texts > limits.batch:
        raise bad_request(f"{num_texts:,} texts; a request may have {limits.batch:,}: send fewer")
    bounds = {"n_best": limits.alternatives + 1, "beam": limits.rows, "tokens": limits.tokens, "top": limits.batch}
    for name, bound in bounds.items():
        if (value := field_values.get(name)) is not None and value > bound:
            raise bad_request(f"{name}: {value:,}; this server allows at most {bound:,}", param=name)


async def answer_inputs(
    context: RequestContext, model: LoadedModel[Any], line_format: LineFormat[Input, Any], inputs: Sequence[Input]
) -> Mapping[str, Any]:
    """Answer inputs with the line format of a model, within the deadline of a request; return the model's name
    (`model`) and the JSON records of the answers (`answers`).
    """

    def work() -> list[Any]:
        return compute_records(context, line_format, inputs)

    return {"model": model.name, "answers": await model.run(context.deadline, work)}


def compute_records(context: RequestContext, line_format: LineFormat[Input, Any], inputs: Sequence[Input]) -> list[Any]:
    """Answer inputs with a line format, in chunks, and return the JSON records; stop with an error when the deadline of
    the request is over. An input that cannot be read gets a record with its `error`.
    """
    results: list[Any] = []
    num_done = 0
    for chunk in iter_chunks(inputs, context.limits.rows):
        context.deadline.raise_if_over()
        answers = line_format.answer_inputs(chunk, start=num_done + 1)
        results += (
            {"error": answer.message} if isinstance(answer, UnreadableInput) else line_format.to_json(answer)
            for answer in answers
        )
        num_done += len(chunk)
    return results


def report_growth(context: RequestContext, emit: Callable[[NamedEvent], None]) -> Callable[[int, TextCandidate], None]:
    """Return a function that emits an event with the best text so far of the only input of a request, and that raises
    an error if the deadline of the request is over.
    """

    def emit_candidate(_index: int, candidate: TextCandidate) -> None:
        context.deadline.raise_if_over()
        emit(("growing", {"text": candidate.text, "tokens": list(candidate.tokens)}))

    return emit_candidate


def prepare_text_inspection(predictor: Predictor, message: InspectHTTPRequest) -> Callable[[], InspectionRecord]:
    """Return a function that inspects a predictor of texts on the text and the pair in a message; `message.text` is
    never read as a file name here. Raise an `HTTPError` if the message has a file.
    """
    for name in FILE_FIELDS:
        if getattr(message, name) is not None:
            raise bad_request(f"{name}: this model reads texts; leave it out", param=name)
    selection = InspectionSelection(attribution="auto")
    request = InspectRequest(
        message.text, message.pair, beam=message.beam, max_tokens=message.tokens, selection=selection
    )
    return partial(run_call, partial(predictor.inspect_request, request))


def prepare_inspection(
    _context: RequestContext, model: LoadedModel[Any], message: InspectHTTPRequest
) -> Callable[[], InspectionRecord]:
    """Return a function that inspects a served text model on the texts in a message; see `prepare_text_inspection`."""
    return prepare_text_inspection(model.predictor, message)
