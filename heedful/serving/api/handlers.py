"""What request handlers share: records of answers, limits, batched answers and inspection of text models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from heedful.inspection.record import InspectionRecord
from heedful.serving.api.requests import FILE_FIELDS, InspectHTTPRequest, iter_texts
from heedful.serving.http_errors import bad_request
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import RequestContext
from heedful.tasks.inspection_records import InspectionSelection
from heedful.tasks.predictor import InspectRequest, LineFormat, Predictor, UnreadableInput, iter_chunks
from heedful.tasks.records import AnswerRecord

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
    return lambda: predictor.inspect_request(request)


def prepare_inspection(
    _context: RequestContext, model: LoadedModel[Any], message: InspectHTTPRequest
) -> Callable[[], InspectionRecord]:
    """Return a function that inspects a served text model on the texts in a message; see `prepare_text_inspection`."""
    return prepare_text_inspection(model.predictor, message)
