"""Route that inspects a model's attention, as a record or as a page."""

from __future__ import annotations

import base64
import secrets
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, final

from starlette.responses import Response

from heedful.inspection.record import InspectionRecord
from heedful.inspection.record_files import save_record
from heedful.inspection.web import build_payload, render_viewer
from heedful.serving.api.handlers import check_limits
from heedful.serving.api.requests import InspectHTTPRequest
from heedful.serving.api.responses import InspectionResponse
from heedful.serving.api.uploads import read_upload_fields
from heedful.serving.capabilities import all_capabilities, list_capabilities
from heedful.serving.http_errors import bad_request, not_found
from heedful.serving.registry import ModelRegistry
from heedful.serving.routes import RequestContext, Route

_MAX_CHARACTERS: Final = 2_000
"""Maximum characters of both texts together, since a record grows with their square."""
_KEEP_SECONDS, _MAX_PAGES, _MAX_BYTES = 600.0, 64, 64_000_000
"""Seconds for which pages are stored, and their maximum number and bytes."""
_CONTENT_POLICY: Final = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline' data:; img-src data: blob:; frame-ancestors 'self'"
)
"""Content security policy of pages: they run their own scripts, without an origin, and load nothing."""


@final
class InspectionPageStore:
    """Stores inspection pages for some minutes, under random names."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._pages: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._clock = clock
        self._lock = threading.Lock()

    def add_page(self, page: bytes) -> str:
        """Store a page and return its random name; the oldest pages are removed if there is no room."""
        name = secrets.token_urlsafe(18)
        with self._lock:
            self._pages[name] = (self._clock() + _KEEP_SECONDS, page)
            while len(self._pages) > 1 and (len(self._pages) > _MAX_PAGES or self._total_bytes > _MAX_BYTES):
                self._pages.popitem(last=False)
        return name

    def get_page(self, name: str) -> bytes:
        """Return a stored page, or raise an `HTTPError` if there is none or it has expired."""
        with self._lock:
            expires_at, page = self._pages.get(name, (0.0, b""))
            if not page or expires_at < self._clock():
                self._pages.pop(name, None)
                raise not_found("this page is no longer kept; ask for it again")
        return page

    @property
    def _total_bytes(self) -> int:
        """Number of bytes of all stored pages."""
        return sum(len(page) for _, page in self._pages.values())


def can_inspect(predictor: Any) -> bool:
    """Return whether a predictor can be inspected over HTTP."""
    return any(capability.inspect is not None for capability in list_capabilities(predictor))


def iter_routes(registry: ModelRegistry) -> Iterator[Route]:
    """Yield the routes for inspection and its pages, if any served model can be inspected."""
    if not any(can_inspect(model.predictor) for model in registry.models.values()):
        return
    page_store = InspectionPageStore()

    async def answer_inspect(context: RequestContext, message: InspectHTTPRequest) -> Any:
        """Inspect a model as the request says."""
        return await _answer_inspect(context, message, page_store)

    async def answer_page(context: RequestContext) -> Response:
        """Send a stored page."""
        return _build_page_response(page_store.get_page(context.request.path_params["name"]))

    yield Route(
        path="/v1/heedful/inspect",
        handler=answer_inspect,
        summary="what a model attends to while it reads or writes a text, looks at something or listens",
        request_type=InspectHTTPRequest,
        response_type=InspectionResponse,
        read_fields=read_upload_fields,
        accepts_files=True,
        group="inspection",
        examples=({"text": "A dog runs.", "format": "link"},),
    )
    yield Route(
        path="/v1/heedful/inspected/{name}",
        method="GET",
        handler=answer_page,
        summary="a page to which `inspect` returned a link",
        public=True,
        group="inspection",
        media_type="text/html",
    )


def _build_page_response(page: bytes) -> Response:
    """Build the response with an inspection page, which runs in a sandbox."""
    headers = {
        "Content-Security-Policy": _CONTENT_POLICY,
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
    }
    return Response(page, media_type="text/html", headers=headers)


async def _answer_inspect(
    context: RequestContext, message: InspectHTTPRequest, page_store: InspectionPageStore
) -> Mapping[str, Any] | Response:
    """Inspect a model as requested, and return the record, the page, or a link to the page."""
    check_limits(context, message)
    if len(message.text) + len(message.pair or "") > _MAX_CHARACTERS:
        raise bad_request(
            f"text, pair: more than {_MAX_CHARACTERS:,} characters to look at; give a shorter text", param="text"
        )
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
        """Compute the record in a worker thread and convert it to the requested format."""
        context.deadline.raise_if_over()
        record = inspect()
        context.deadline.raise_if_over()
        if message.format == "record":
            return {"record": build_payload(record)}
        if message.format == "safetensors":
            return {"record": base64.b64encode(_encode_safetensors(record)).decode("ascii")}
        page = render_viewer(record).encode()
        if message.format == "page":
            return page
        return {"page": f"/v1/heedful/inspected/{page_store.add_page(page)}", "seconds": _KEEP_SECONDS}

    result = await model.run(context.deadline, work)
    return (
        _build_page_response(result)
        if isinstance(result, bytes)
        else {"model": model.name, "format": message.format, **result}
    )


def _encode_safetensors(record: InspectionRecord) -> bytes:
    """Return a record as the bytes of a safetensors file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.safetensors"
        save_record(record, path)
        return path.read_bytes()
