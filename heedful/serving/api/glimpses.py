"""Route of models that classify a picture glimpse by glimpse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from heedful.inspection.record import InspectionRecord
from heedful.serving.api.captioning import GROUP
from heedful.serving.api.handlers import FileContent, InspectHTTPRequest, ModelAnswers, ModelRequest, check_limits
from heedful.serving.api.uploads import find_inspected_field, open_picture, read_upload_fields
from heedful.serving.capabilities import Capability, declare_model_route, find_capable_model
from heedful.serving.http_errors import bad_request
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import RequestContext
from heedful.tasks.glimpses.data import PixelArray, fit_picture_to_shape
from heedful.tasks.glimpses.predictor import GlimpsePredictor, PictureClassRecord


class LookRequest(ModelRequest):
    """A request to classify a picture glimpse by glimpse, as `heedful look` does."""

    image: FileContent
    """the picture, in base64 or as a data URL; in multipart/form-data, a file of this name"""


def _warm_up(predictor: GlimpsePredictor) -> object:
    return predictor.look_at([np.zeros(predictor.shape, dtype=np.uint8)])


def _prepare_inspection(
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
    return lambda: predictor.inspect(_load_pixels(context, predictor, image), title="1")


CAPABILITIES = (
    Capability(
        "look", (GlimpsePredictor,), "look at pictures", _warm_up, _prepare_inspection, lambda _: {"takes": "picture"}
    ),
)


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
        return fit_picture_to_shape(picture, predictor.shape)
