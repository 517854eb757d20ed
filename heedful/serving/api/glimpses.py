"""Route of models that classify a picture glimpse by glimpse."""

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
    """Classify a black picture."""
    return predictor.look_at([np.zeros(predictor.shape, dtype=np.uint8)])


def _prepare_inspection(
    context: RequestContext, model: LoadedModel[Any], message: InspectHTTPRequest
) -> Callable[[], InspectionRecord]:
    """Return a function that inspects a glimpse model on the picture of a request."""
    find_inspected_field(message, "image")
    for name in ("pair", "beam"):
        if getattr(message, name) is not None:
            raise bad_request(f"{name}: this model does not write text; leave it out", param=name)
    predictor, image = model.predictor, message.image
    assert image is not None, "it is perceived"
    return lambda: predictor.inspect(_load_pixels(context, predictor, image), title="1")


CAPABILITIES = (
    Capability(
        "look", (GlimpsePredictor,), "look at pictures", _warm_up, _prepare_inspection, lambda _: {"takes": "picture"}
    ),
)


def iter_routes(registry: ModelRegistry) -> Iterator[Route]:
    """Yield the route of glimpse models, if any is served."""
    if has_capable_model(registry, "look"):
        yield Route(
            path="/v1/heedful/look",
            handler=_answer_look,
            summary="classify a picture, glimpse by glimpse",
            request_type=LookRequest,
            response_type=ModelAnswers[PictureClassRecord],
            read_fields=read_upload_fields,
            accepts_files=True,
            group=GROUP,
        )


async def _answer_look(context: RequestContext, message: LookRequest) -> Mapping[str, Any]:
    """Classify the picture of a request."""
    check_limits(context, message)
    model = find_capable_model(context.registry, "look", message.model)
    predictor: GlimpsePredictor = model.predictor

    def work() -> list[Mapping[str, Any]]:
        """Classify the picture in a worker thread."""
        pixels = _load_pixels(context, predictor, message.image)
        context.deadline.raise_if_over()
        lines = predictor.line_format()
        return [lines.to_json(("1", sight)) for sight in predictor.look_at([pixels])]

    return {"model": model.name, "answers": await model.run(context.deadline, work)}


def _load_pixels(context: RequestContext, predictor: GlimpsePredictor, image: FileContent) -> PixelArray:
    """Decode a picture and resize it to the model's input."""
    with open_picture(image, context) as picture:
        return fit_picture_to_shape(picture, predictor.shape)
