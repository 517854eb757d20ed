"""What is seen glimpse by glimpse, in our own interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from heedful.inspection.record import InspectionRecord
from heedful.serving.api.captioning import GROUP
from heedful.serving.api.handlers import check_limits
from heedful.serving.api.requests import FileContent, InspectHTTPRequest, LookRequest
from heedful.serving.api.responses import ModelAnswers, PictureClassRecord
from heedful.serving.api.uploads import find_inspected_field, open_picture, read_upload_fields
from heedful.serving.capabilities import Capability, find_capable_model, has_capable_model
from heedful.serving.http_errors import bad_request
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.routes import RequestContext, Route
from heedful.tasks.glimpses.data import PixelArray, fit_picture_to_shape
from heedful.tasks.glimpses.predictor import GlimpsePredictor


def _warm_up(predictor: GlimpsePredictor) -> object:
    return predictor.look_at([np.zeros(predictor.shape, dtype=np.uint8)])


def _prepare_inspection(
    context: RequestContext, model: LoadedModel[Any], message: InspectHTTPRequest
) -> Callable[[], InspectionRecord]:
    find_inspected_field(message, "image")
    for name in ("pair", "beam"):
        if getattr(message, name) is not None:
            raise bad_request(f"{name}: this model writes nothing; leave it out", param=name)
    predictor, image = model.predictor, message.image
    assert image is not None, "it is perceived"
    return lambda: predictor.inspect(_load_pixels(context, predictor, image), title="1")


CAPABILITIES = (
    Capability(
        "look", (GlimpsePredictor,), "look at pictures", _warm_up, _prepare_inspection, lambda _: {"takes": "picture"}
    ),
)


def iter_routes(registry: ModelRegistry) -> Iterator[Route]:
    """That of models that look glimpse by glimpse, where there are any."""
    if has_capable_model(registry, "look"):
        yield Route(
            path="/v1/heedful/look",
            handler=_answer_look,
            summary="tell the class of a picture, glimpse by glimpse",
            request_type=LookRequest,
            response_type=ModelAnswers[PictureClassRecord],
            read_fields=read_upload_fields,
            accepts_files=True,
            group=GROUP,
        )


async def _answer_look(context: RequestContext, message: LookRequest) -> Mapping[str, Any]:
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
    """The picture as the model sees it, which is small."""
    with open_picture(image, context) as picture:
        return fit_picture_to_shape(picture, predictor.shape)
