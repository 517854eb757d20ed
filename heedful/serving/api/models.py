"""Routes about the served models: what each can do, and what it attends to, as a record or as a page."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from starlette.responses import Response

from heedful.inspection.record import InspectionRecord
from heedful.inspection.record_files import save_record
from heedful.inspection.web import build_payload, render_viewer
from heedful.serving.api import search
from heedful.serving.api.handlers import InspectHTTPRequest, check_limits
from heedful.serving.api.uploads import read_upload_fields
from heedful.serving.capabilities import all_capabilities, list_capabilities
from heedful.serving.http_errors import bad_request, not_found
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.resource_limits import TemporaryStore
from heedful.serving.routes import RequestContext, declare_route
from heedful.tasks.predictor import AnswerRecord

_MAX_CHARACTERS: Final = 2_000
"""Maximum characters of both texts together, since a record grows with their square."""
_MAX_PAGES, _MAX_BYTES = 64, 64_000_000
"""Maximum number and bytes of the pages that are stored."""
_CONTENT_POLICY: Final = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline' data:; img-src data: blob:; frame-ancestors 'self'"
)
"""Content security policy of pages: they run their own scripts, without an origin, and load nothing."""


class InspectionResponse(AnswerRecord):
    """The recorded attention of a model, as a record, a file or a link to a page."""

    model: str
    format: Literal["record", "safetensors", "link"]
    record: dict[str, object] | str | None = None
    """the record as JSON, or a file in base64"""
    page: str | None = None
    """path of the page on this server"""
    seconds: float | None = None
    """seconds for which the page is stored"""


def can_inspect(predictor: Any) -> bool:
    """Return whether a predictor can be inspected over HTTP."""
    return any(capability.inspect is not None for capability in list_capabilities(predictor))


def _build_page_response(page: bytes) -> Response:
    """Build the response with an inspection page, which runs in a sandbox."""
    headers = {
        "Content-Security-Policy": _CONTENT_POLICY,
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
    }
    return Response(page, media_type="text/html", headers=headers)


def _build_page_store(_registry: ModelRegistry) -> TemporaryStore[bytes]:
    return TemporaryStore(max_bytes=_MAX_BYTES, max_items=_MAX_PAGES)


def _has_inspectable_model(registry: ModelRegistry) -> bool:
    return any(can_inspect(model.predictor) for model in registry.models.values())


@declare_route(
    "/v1/heedful/inspect",
    "what a model attends to while it reads or writes a text, looks at something or listens",
    response_type=InspectionResponse,
    read_fields=read_upload_fields,
    accepts_files=True,
    group="inspection",
    examples=({"text": "A dog runs.", "format": "link"},),
    is_served=_has_inspectable_model,
)
async def _answer_inspect(context: RequestContext, message: InspectHTTPRequest) -> Mapping[str, Any] | Response:
    """Inspect a model on the input of a request; return the record as JSON, the content of a file or a link to a page,
    or a response with the page, as the format of the message says.
    """
    check_limits(context, message)
    if len(message.text) + len(message.pair or "") > _MAX_CHARACTERS:
        raise bad_request(f"text, pair: more than {_MAX_CHARACTERS:,} characters; give a shorter text", param="text")
    predictor_types = tuple(
        predictor_type
        for capability in all_capabilities().values()
        if capability.inspect is not None
        for predictor_type in capability.predictor_types
    )
    model = context.registry.get_model(predictor_types, message.model, action="can be inspected")
    inspect = next(
        capability.inspect for capability in list_capabilities(model.predictor) if capability.inspect is not None
    )(context, model, message)

    def work() -> dict[str, Any] | bytes:
        context.deadline.raise_if_over()
        record = inspect()
        context.deadline.raise_if_over()
        if message.format == "record":
            return {"record": build_payload(record)}
        if message.format == "safetensors":
            return {"record": base64.b64encode(_encode_safetensors(record)).decode("ascii")}
        return render_viewer(record).encode()

    result = await model.run(context.deadline, work)
    if isinstance(result, bytes):
        if message.format == "page":
            return _build_page_response(result)
        page_store = context.registry.get_shared(_build_page_store)
        name = page_store.add(result, size=len(result))
        result = {"page": f"/v1/heedful/inspected/{name}", "seconds": page_store.seconds}
    return {"model": model.name, "format": message.format, **result}


@declare_route(
    "/v1/heedful/inspected/{name}",
    "a page to which `inspect` returned a link",
    method="GET",
    public=True,
    group="inspection",
    media_type="text/html",
    is_served=_has_inspectable_model,
)
async def _answer_page(context: RequestContext) -> Response:
    """Return the response with a stored inspection page; raise a 404 error if it is not stored any more."""
    page = context.registry.get_shared(_build_page_store).get(context.request.path_params["name"])
    if page is None:
        raise not_found("this page is no longer kept; ask for it again")
    return _build_page_response(page)


def _encode_safetensors(record: InspectionRecord) -> bytes:
    """Return the content of a safetensors file with a record."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.safetensors"
        save_record(record, path)
        return path.read_bytes()


class ServedModelInfo(AnswerRecord):
    """A served model, and what can be requested of it."""

    name: str
    does: list[str]
    """paths behind /v1/heedful/ that the model supports"""
    ways: list[Annotated[list[str | None], Field(min_length=2, max_length=2)]] = []
    """pairs of source and target languages, as far as they are known"""
    languages: dict[str, str] = {}
    """names of these languages"""
    takes: Literal["text", "pair", "candidates", "picture", "clip", "sound"] = "text"
    """kind of input"""


class ServerInfo(AnswerRecord):
    """The served models and indices, and the server's limits."""

    models: list[ServedModelInfo]
    indices: list[str]
    orders: dict[str, list[str]] = {}
    """orderings of passages that each index supports"""
    limits: dict[str, int]


@declare_route("/v1/heedful", "the served models and indices, and the limits", method="GET", response_type=ServerInfo)
async def _answer_info(context: RequestContext) -> Mapping[str, Any]:
    """Describe the served models and indices, the orderings of each index, and the limits of requests."""
    limits = context.limits
    return {
        "models": [_describe_model(model) for model in context.registry.models.values()],
        "indices": list(context.registry.indices),
        "orders": {
            name: list(search.available_orderings(index.predictor)) for name, index in context.registry.indices.items()
        },
        "limits": {name: getattr(limits, name) for name in ("characters", "batch", "alternatives", "tokens", "file")},
    }


def _describe_model(model: LoadedModel[Any]) -> dict[str, Any]:
    """Describe a served model: its name, what it can do, and facts about it."""
    capabilities = list_capabilities(model.predictor)
    facts = (capability.describe(model) for capability in capabilities if capability.describe is not None)
    capability_names = [
        *(capability.name for capability in capabilities),
        *(["inspect"] if can_inspect(model.predictor) else []),
    ]
    return {"name": model.name, "does": capability_names, **dict(chain.from_iterable(fact.items() for fact in facts))}
